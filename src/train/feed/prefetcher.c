/* SPDX-License-Identifier: MIT */
/* Copies the loader's batches to the device ahead of use and converts them to pixels there. Reading and
 * decoding are left to data/load. */
#include "train/feed/prefetcher.h"

#include "base/clock.h"
#include "base/mem.h"
#include "data/transform/settings.h"

int prefetcher_threads(const runtime_t *runtime, const dataset_t *dataset, int64_t requested)
{
    int busy = runtime->backend->memory ? 1 : runtime->n_threads, left = runtime->n_cpus - busy;
    if (requested > 0) return (int)requested;
    return dataset->ops->read && left > 1 ? left : 1;
}

static size_t image_bytes(const prefetcher_t *prefetcher, size_t element)
{
    return (size_t)(prefetcher->info.height * prefetcher->info.width * prefetcher->info.channels) * element;
}

static size_t target_bytes(const prefetcher_t *prefetcher)
{
    return (size_t)prefetcher->info.n_classes * sizeof(float);
}

/* Allocates the labels or targets of n samples on the device. */
static err_t make_answers(const prefetcher_t *prefetcher, size_t n, int32_t **labels, float **targets)
{
    if (prefetcher->info.multi_label)
        return backend_alloc(prefetcher->backend, n * target_bytes(prefetcher), "a batch of targets",
                             targets);
    return backend_alloc(prefetcher->backend, n * sizeof(int32_t), "a batch of labels", labels);
}

static err_t make_slots(prefetcher_t *prefetcher, size_t n, bool moved)
{
    const backend_t *backend = prefetcher->backend;
    prefetcher_batch_t *batch = &prefetcher->batch;
    TRY(backend_alloc(backend, n * sizeof(int32_t), "predictions", &batch->predictions));
    if (!backend->memory) return ERR_OK;
    TRY(backend_alloc(backend, n * image_bytes(prefetcher, sizeof(float)), "a batch of pixels",
                      &batch->pixels));
    TRY(make_answers(prefetcher, n, &batch->labels, &batch->targets));
    for (int i = 0; i < PREFETCHER_SLOTS; i++) {
        prefetcher_slot_t *slot = &prefetcher->slots[i];
        TRY(backend_alloc(backend, n * image_bytes(prefetcher, 1), "a batch of pixels", &slot->bytes));
        TRY(make_answers(prefetcher, n, &slot->labels, &slot->targets));
        if (moved) TRY(backend_alloc(backend, n * sizeof(affine_t), "a batch of maps", &slot->maps));
    }
    return ERR_OK;
}

err_t prefetcher_open(const loader_options_t *options, const backend_t *backend, prefetcher_t *out)
{
    loader_options_t own = *options;
    *out = (prefetcher_t){.backend = backend,
                          .info = options->dataset->info,
                          .norm = options->norm,
                          .n_left = options->n_batches};
    if (backend->memory) {
        own.raw = true;
        own.alloc = backend->memory->alloc_host;
        own.release = backend->memory->release_host;
    }
    bool moved = options->transform && transform_moves(options->transform);
    TRY(make_slots(out, (size_t)options->max_local, moved));
    return loader_open(&own, &out->loader);
}

void prefetcher_close(prefetcher_t *prefetcher)
{
    const backend_t *backend = prefetcher->backend;
    loader_close(&prefetcher->loader);
    if (!backend) return;
    backend_release(backend, &prefetcher->batch.predictions);
    if (!backend->memory) return;
    backend_release(backend, &prefetcher->batch.pixels);
    backend_release(backend, &prefetcher->batch.labels);
    backend_release(backend, &prefetcher->batch.targets);
    for (int i = 0; i < PREFETCHER_SLOTS; i++) {
        backend_release(backend, &prefetcher->slots[i].bytes);
        backend_release(backend, &prefetcher->slots[i].labels);
        backend_release(backend, &prefetcher->slots[i].targets);
        backend_release(backend, &prefetcher->slots[i].maps);
    }
}

/* Gets a batch from the loader and starts copying it. */
static err_t fetch_batch(prefetcher_t *prefetcher)
{
    const backend_memory_t *memory = prefetcher->backend->memory;
    prefetcher_slot_t *slot = &prefetcher->slots[prefetcher->n_fetched++ % PREFETCHER_SLOTS];
    /* loader_next reuses the previous batch's buffers, so their copy must be complete. It started a step
     * ago. */
    double start = clock_sec();
    TRY(memory->prefetch_sync());
    prefetcher->copy_sec += clock_sec() - start;
    TRY(loader_next(prefetcher->loader, &prefetcher->ahead));
    prefetcher->n_left--;
    size_t n = (size_t)prefetcher->ahead->n;
    if (n == 0) return ERR_OK;
    TRY(memory->prefetch(slot->bytes, prefetcher->ahead->bytes, n * image_bytes(prefetcher, 1)));
    if (slot->labels) TRY(memory->prefetch(slot->labels, prefetcher->ahead->labels, n * sizeof(int32_t)));
    if (slot->targets)
        TRY(memory->prefetch(slot->targets, prefetcher->ahead->targets, n * target_bytes(prefetcher)));
    return slot->maps ? memory->prefetch(slot->maps, prefetcher->ahead->maps, n * sizeof(affine_t)) : ERR_OK;
}

double prefetcher_take_copy_sec(prefetcher_t *prefetcher)
{
    double sec = prefetcher->copy_sec;
    prefetcher->copy_sec = 0;
    return sec;
}

void prefetcher_allow(prefetcher_t *prefetcher, int64_t n)
{
    prefetcher->n_left += n;
    loader_allow(prefetcher->loader, n);
}

err_t prefetcher_ahead(prefetcher_t *prefetcher)
{
    return prefetcher->backend->memory && !prefetcher->ahead && prefetcher->n_left > 0
               ? fetch_batch(prefetcher)
               : ERR_OK;
}

static err_t make_pixels(prefetcher_t *prefetcher)
{
    const prefetcher_slot_t *slot = &prefetcher->slots[(prefetcher->n_fetched - 1) % PREFETCHER_SLOTS];
    const dataset_info_t *info = &prefetcher->info;
    const prefetcher_batch_t *batch = &prefetcher->batch;
    if (batch->n == 0) return ERR_OK;
    TRY(prefetcher->backend->memory->prefetched());
    size_t n = (size_t)batch->n;
    if (slot->labels)
        TRY(backend_copy(prefetcher->backend, batch->labels, slot->labels, n * sizeof(int32_t)));
    if (slot->targets)
        TRY(backend_copy(prefetcher->backend, batch->targets, slot->targets, n * target_bytes(prefetcher)));
    pixels_args_t args = {.bytes = slot->bytes,
                          .maps = slot->maps,
                          .n = batch->n,
                          .height = info->height,
                          .width = info->width,
                          .channels = info->channels,
                          .norm = prefetcher->norm,
                          .pixels = batch->pixels};
    return prefetcher->backend->pixels(&args);
}

err_t prefetcher_next(prefetcher_t *prefetcher, prefetcher_batch_t *out)
{
    prefetcher_batch_t *batch = &prefetcher->batch;
    const batch_t *from;
    bool on_host = !prefetcher->backend->memory;
    if (on_host)
        TRY(loader_next(prefetcher->loader, &prefetcher->ahead));
    else
        TRY(prefetcher_ahead(prefetcher));
    from = prefetcher->ahead;
    prefetcher->ahead = NULL;
    batch->n_global = from->n_global, batch->first = from->first, batch->n = from->n;
    batch->from = from;
    if (on_host)
        batch->pixels = from->pixels, batch->labels = from->labels, batch->targets = from->targets;
    else
        TRY(make_pixels(prefetcher));
    *out = *batch;
    return ERR_OK;
}
