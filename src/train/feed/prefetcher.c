/* SPDX-License-Identifier: MIT */
/* Copies the loader's batches to the device ahead of use and converts them to pixels there. Reading and
 * decoding are left to data/load. */
#include "train/feed/prefetcher.h"

#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "compute/ops/hd_buffer.h"
#include "data/load/samples.h"
#include "data/transform/settings.h"

int prefetcher_threads(const runtime_t *runtime, const dataset_t *dataset, int64_t requested)
{
    int busy = runtime->backend->memory ? 1 : runtime->n_threads, left = runtime->n_cpus - busy;
    if (requested > 0) return (int)requested;
    return dataset->read && left > 1 ? left : 1;
}

static size_t image_bytes(const prefetcher_t *prefetcher, size_t element)
{
    return (size_t)(prefetcher->info.height * prefetcher->info.width * prefetcher->info.channels) * element;
}

/* Allocates the fields of n samples on the device. */
static err_t make_fields(const prefetcher_t *prefetcher, size_t n, void *out[FIELDS_MAX])
{
    if (prefetcher->fields.on_host) return ERR_OK;
    for (int k = 0; k < prefetcher->fields.n; k++)
        TRY(backend_alloc(prefetcher->backend, n * field_sample_bytes(&prefetcher->fields.at[k]),
                          "a batch of fields", &out[k]));
    return ERR_OK;
}

static void release_fields(const backend_t *backend, void *fields[FIELDS_MAX])
{
    for (int k = 0; k < FIELDS_MAX; k++) backend_release(backend, &fields[k]);
}

err_t prefetcher_open(const loader_options_t *options, const backend_t *backend, prefetcher_t *out)
{
    const size_t n = (size_t)options->max_local;
    loader_options_t own = *options;
    *out =
        (prefetcher_t){.backend = backend,
                       .info = options->dataset->info,
                       .fields = options->fields ? *options->fields : samples_fields(&options->dataset->info),
                       .norm = options->norm,
                       .n_left = options->n_batches};
    if (backend->memory) {
        own.raw = true;
        own.alloc = backend->memory->alloc_host;
        own.release = backend->memory->release_host;
        TRY(backend_alloc(backend, n * image_bytes(out, sizeof(float)), "a batch of pixels",
                          &out->batch.pixels));
        TRY(make_fields(out, n, out->batch.fields));
    }
    const bool on_canvas = samples_of(out->info.task)->on_canvas,
               moved = options->transform && transform_moves(options->transform);
    for (int i = 0; i < PREFETCHER_SLOTS && backend->memory; i++) {
        prefetcher_slot_t *slot = &out->slots[i];
        TRY(backend_alloc(backend, n * image_bytes(out, 1), "a batch of pixels", &slot->bytes));
        TRY(make_fields(out, n, slot->fields));
        if (moved) TRY(backend_alloc(backend, n * sizeof(affine_t), "a batch of maps", &slot->maps));
        if (on_canvas)
            TRY(mem_new_array((int64_t)n, sizeof *slot->canvases, "canvases of a batch", &slot->canvases));
    }
    return loader_open(&own, &out->loader);
}

/* from: NULL: the loader no longer has the batch. */
static void use_host_fields(prefetcher_t *prefetcher, const batch_t *from)
{
    for (int k = 0; k < prefetcher->fields.n; k++)
        prefetcher->batch.fields[k] = from ? from->fields[k].data : NULL;
}

void prefetcher_close(prefetcher_t *prefetcher)
{
    const backend_t *backend = prefetcher->backend;
    loader_close(&prefetcher->loader);
    if (!backend) return;
    if (!backend->memory) return;
    backend_release(backend, &prefetcher->batch.pixels);
    if (prefetcher->fields.on_host) use_host_fields(prefetcher, NULL);
    release_fields(backend, prefetcher->batch.fields);
    for (int i = 0; i < PREFETCHER_SLOTS; i++) {
        backend_release(backend, &prefetcher->slots[i].bytes);
        release_fields(backend, prefetcher->slots[i].fields);
        backend_release(backend, &prefetcher->slots[i].maps);
        mem_free(&prefetcher->slots[i].canvases);
    }
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
    if (!prefetcher->backend->memory || prefetcher->ahead || prefetcher->n_left <= 0) return ERR_OK;
    const backend_memory_t *memory = prefetcher->backend->memory;
    prefetcher_slot_t *slot = &prefetcher->slots[prefetcher->n_fetched++ % PREFETCHER_SLOTS];
    /* loader_next reuses the previous batch's buffers, so their copy must be complete. It started a step
     * ago. */
    double start = clock_sec();
    TRY(memory->prefetch_sync());
    prefetcher->copy_sec += clock_sec() - start;
    TRY(loader_next(prefetcher->loader, &prefetcher->ahead));
    prefetcher->n_left--;
    const batch_t *from = prefetcher->ahead;
    size_t n = (size_t)from->n;
    slot->n_global = from->n_global, slot->first = from->first, slot->n = from->n;
    if (n == 0) return ERR_OK;
    /* The images, without what is beside them in their room. */
    const size_t n_room = image_bytes(prefetcher, 1);
    if (!slot->canvases) TRY(memory->prefetch(slot->bytes, from->bytes, n * n_room));
    for (int64_t i = 0; slot->canvases && i < from->n; i++) {
        const canvas_place_t *p = &from->places[i];
        const size_t n_image = (size_t)(p->scaled.height * p->scaled.width * prefetcher->info.channels);
        slot->canvases[i] =
            (pixels_canvas_t){p->canvas.height, p->canvas.width, p->scaled.height, p->scaled.width};
        TRY(memory->prefetch(slot->bytes + (size_t)i * n_room, from->bytes + (size_t)i * n_room, n_image));
    }
    for (int k = 0; k < prefetcher->fields.n && !prefetcher->fields.on_host; k++) {
        slot->field_bytes[k] = batch_field_bytes(&prefetcher->fields.at[k], &from->fields[k], from->n);
        TRY(memory->prefetch(slot->fields[k], from->fields[k].data, slot->field_bytes[k]));
    }
    return slot->maps ? memory->prefetch(slot->maps, from->maps, n * sizeof(affine_t)) : ERR_OK;
}

/* Makes the batch from the copy of fetch number `number`. */
static err_t make_pixels(prefetcher_t *prefetcher, int64_t number)
{
    const prefetcher_slot_t *slot = &prefetcher->slots[number % PREFETCHER_SLOTS];
    const dataset_info_t *info = &prefetcher->info;
    prefetcher_batch_t *batch = &prefetcher->batch;
    batch->n_global = slot->n_global, batch->first = slot->first, batch->n = slot->n;
    if (batch->n == 0) return ERR_OK;
    TRY(prefetcher->backend->memory->prefetched());
    for (int k = 0; k < prefetcher->fields.n && !prefetcher->fields.on_host; k++)
        TRY(backend_copy(prefetcher->backend, batch->fields[k], slot->fields[k], slot->field_bytes[k]));
    pixels_args_t args = {.bytes = slot->bytes,
                          .maps = slot->maps,
                          .canvases = slot->canvases,
                          .n = batch->n,
                          .height = info->height,
                          .width = info->width,
                          .channels = info->channels,
                          .norm = prefetcher->norm,
                          .pixels = batch->pixels};
    return prefetcher->backend->pixels(&args);
}

static void *field_of(const prefetcher_t *prefetcher, const prefetcher_batch_t *batch, const char *name)
{
    for (int k = 0; k < prefetcher->fields.n; k++)
        if (strcmp(prefetcher->fields.at[k].name, name) == 0) return batch->fields[k];
    return NULL;
}

exec_batch_t prefetcher_exec_batch(const prefetcher_t *prefetcher, const prefetcher_batch_t *batch,
                                   const graph_t *graph)
{
    exec_batch_t out = {.n = batch->n};
    for (int i = 0; i < graph->n_inputs; i++) {
        const char *name = graph->inputs[i].name;
        out.input[i] = strcmp(name, "image") == 0 ? batch->pixels : field_of(prefetcher, batch, name);
    }
    return out;
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
    batch->from = from;
    if (on_host) {
        batch->n_global = from->n_global, batch->first = from->first;
        batch->n = from->n;
        batch->pixels = from->pixels;
        use_host_fields(prefetcher, from);
    } else {
        TRY(make_pixels(prefetcher, prefetcher->n_fetched - 1));
    }
    if (!on_host && prefetcher->fields.on_host) use_host_fields(prefetcher, from);
    *out = *batch;
    return ERR_OK;
}

err_t prefetcher_restore(prefetcher_t *prefetcher, prefetcher_batch_t *out)
{
    const int64_t last = prefetcher->n_fetched - 1 - (prefetcher->ahead != NULL);
    ASSERT(last > 0);
    prefetcher->batch.from = NULL;
    if (prefetcher->fields.on_host) use_host_fields(prefetcher, NULL);
    TRY(make_pixels(prefetcher, last - 1));
    *out = prefetcher->batch;
    return ERR_OK;
}
