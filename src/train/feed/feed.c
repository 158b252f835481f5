/* SPDX-License-Identifier: MIT */
/* The prefetcher: takes batches from the loader, copies them to the device ahead of use, and makes pixels
 * there. The loader's threads are in data/load. */
#include "train/feed/feed.h"

#include "base/clock.h"
#include "base/mem.h"
#include "data/transform/settings.h"

int feed_threads(const runtime_t *runtime, const dataset_t *dataset, int64_t wish)
{
    int busy = runtime->backend->memory ? 1 : runtime->n_threads, left = runtime->n_cpus - busy;
    if (wish > 0) return (int)wish;
    return dataset->ops->read && left > 1 ? left : 1;
}

static size_t picture_bytes(const feed_t *feed, size_t element)
{
    return (size_t)(feed->info.height * feed->info.width * feed->info.channels) * element;
}

static size_t target_bytes(const feed_t *feed)
{
    return (size_t)feed->info.n_classes * sizeof(float);
}

/* On the device, for the labels or targets of n samples. */
static err_t make_answers(const feed_t *feed, size_t n, int32_t **labels, float **targets)
{
    if (feed->info.multi_label)
        return backend_alloc(feed->backend, n * target_bytes(feed), "a batch of targets", targets);
    return backend_alloc(feed->backend, n * sizeof(int32_t), "a batch of labels", labels);
}

static err_t make_slots(feed_t *feed, size_t n, bool moved)
{
    const backend_t *backend = feed->backend;
    feed_batch_t *batch = &feed->batch;
    TRY(backend_alloc(backend, n * sizeof(int32_t), "predictions", &batch->predictions));
    if (!backend->memory) return ERR_OK;
    TRY(backend_alloc(backend, n * picture_bytes(feed, sizeof(float)), "a batch of pixels", &batch->pixels));
    TRY(make_answers(feed, n, &batch->labels, &batch->targets));
    for (int i = 0; i < FEED_SLOTS; i++) {
        feed_slot_t *slot = &feed->slots[i];
        TRY(backend_alloc(backend, n * picture_bytes(feed, 1), "a batch of pixels", &slot->bytes));
        TRY(make_answers(feed, n, &slot->labels, &slot->targets));
        if (moved) TRY(backend_alloc(backend, n * sizeof(affine_t), "a batch of maps", &slot->maps));
    }
    return ERR_OK;
}

err_t feed_open(const loader_options_t *options, const backend_t *backend, feed_t *out)
{
    loader_options_t own = *options;
    *out = (feed_t){.backend = backend,
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

void feed_close(feed_t *feed)
{
    const backend_t *backend = feed->backend;
    loader_close(&feed->loader);
    if (!backend) return;
    backend_release(backend, &feed->batch.predictions);
    if (!backend->memory) return;
    backend_release(backend, &feed->batch.pixels);
    backend_release(backend, &feed->batch.labels);
    backend_release(backend, &feed->batch.targets);
    for (int i = 0; i < FEED_SLOTS; i++) {
        backend_release(backend, &feed->slots[i].bytes);
        backend_release(backend, &feed->slots[i].labels);
        backend_release(backend, &feed->slots[i].targets);
        backend_release(backend, &feed->slots[i].maps);
    }
}

/* Takes a batch from the loader and begins copying it. */
static err_t fetch(feed_t *feed)
{
    const backend_memory_t *memory = feed->backend->memory;
    feed_slot_t *slot = &feed->slots[feed->n_fetched++ % FEED_SLOTS];
    /* The loader writes anew what it handed out before: that must have been copied. It was, a step ago. */
    double start = clock_sec();
    TRY(memory->prefetch_sync());
    feed->copy_sec += clock_sec() - start;
    TRY(loader_next(feed->loader, &feed->ahead));
    feed->n_left--;
    size_t n = (size_t)feed->ahead->n;
    if (n == 0) return ERR_OK;
    TRY(memory->prefetch(slot->bytes, feed->ahead->bytes, n * picture_bytes(feed, 1)));
    if (slot->labels) TRY(memory->prefetch(slot->labels, feed->ahead->labels, n * sizeof(int32_t)));
    if (slot->targets) TRY(memory->prefetch(slot->targets, feed->ahead->targets, n * target_bytes(feed)));
    return slot->maps ? memory->prefetch(slot->maps, feed->ahead->maps, n * sizeof(affine_t)) : ERR_OK;
}

double feed_take_copy_sec(feed_t *feed)
{
    double sec = feed->copy_sec;
    feed->copy_sec = 0;
    return sec;
}

void feed_allow(feed_t *feed, int64_t n)
{
    feed->n_left += n;
    loader_allow(feed->loader, n);
}

err_t feed_ahead(feed_t *feed)
{
    return feed->backend->memory && !feed->ahead && feed->n_left > 0 ? fetch(feed) : ERR_OK;
}

static err_t make_pixels(feed_t *feed)
{
    const feed_slot_t *slot = &feed->slots[(feed->n_fetched - 1) % FEED_SLOTS];
    const dataset_info_t *info = &feed->info;
    const feed_batch_t *batch = &feed->batch;
    if (batch->n == 0) return ERR_OK;
    TRY(feed->backend->memory->prefetched());
    size_t n = (size_t)batch->n;
    if (slot->labels) TRY(backend_copy(feed->backend, batch->labels, slot->labels, n * sizeof(int32_t)));
    if (slot->targets)
        TRY(backend_copy(feed->backend, batch->targets, slot->targets, n * target_bytes(feed)));
    pixels_args_t args = {.bytes = slot->bytes,
                          .maps = slot->maps,
                          .n = batch->n,
                          .height = info->height,
                          .width = info->width,
                          .channels = info->channels,
                          .norm = feed->norm,
                          .pixels = batch->pixels};
    return feed->backend->pixels(&args);
}

err_t feed_next(feed_t *feed, feed_batch_t *out)
{
    feed_batch_t *batch = &feed->batch;
    const batch_t *from;
    bool on_host = !feed->backend->memory;
    if (on_host)
        TRY(loader_next(feed->loader, &feed->ahead));
    else
        TRY(feed_ahead(feed));
    from = feed->ahead;
    feed->ahead = NULL;
    batch->n_global = from->n_global, batch->first = from->first, batch->n = from->n;
    batch->from = from;
    if (on_host)
        batch->pixels = from->pixels, batch->labels = from->labels, batch->targets = from->targets;
    else
        TRY(make_pixels(feed));
    *out = *batch;
    return ERR_OK;
}
