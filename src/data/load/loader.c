/* SPDX-License-Identifier: MIT */
/* The prefetch ring: worker threads fill batches out of order, and the consumer receives them in order. A thread reads,
 * normalises and augments samples (or keeps bytes, for a GPU), and replaces a corrupt one by the next readable one; these
 * are in a process's list, whose sharing between ranks is left to train/feed/data.c. */
#include "data/load/loader.h"

#include <errno.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/process.h"
#include "data/image/image.h"
#include "data/load/samples.h"
#include "data/transform/map.h"
#include "data/transform/transform.h"

const opt_t loader_option_table[] = {
    {"loader-threads", OPT_INT, offsetof(loader_settings_t, threads), "0", 0, 256, NULL, "N",
     "threads per rank that read and decode images; 0: the CPUs not used by --threads, at least 1", OPT_MORE},
    {"max-bad", OPT_INT, offsetof(loader_settings_t, max_bad), "0", 0, 1000000, NULL, "N",
     "corrupt samples to tolerate; each is reported and replaced by the next sample; evaluations of detectors find "
     "nothing in it",
     OPT_MORE},
    IMAGE_PIXELS_ROW(offsetof(loader_settings_t, max_image_pixels)),
    LIST_RULE_ROWS(offsetof(loader_settings_t, list)),
};
const int n_loader_options = sizeof loader_option_table / sizeof loader_option_table[0];

void loader_apply_limits(const loader_settings_t *settings)
{
    image_set_max_pixels(settings->max_image_pixels);
}

const char *const corrupt_fates[CORRUPT_N_FATES] = {"replaced by another image",
                                                    "it counts as an image without detections"};
static const char *const allowances[CORRUPT_N_FATES] = {"replaces up to N such images by others",
                                                        "goes on without up to N such images"};

err_t bad_open(int64_t max, corrupt_samples_t *out)
{
    *out = (corrupt_samples_t){.max = max};
    int status = pthread_mutex_init(&out->mutex, NULL);
    if (status != 0) RAISE(ERR_SYSTEM, "cannot create a mutex: %s", strerror(status));
    out->opened = true;
    return ERR_OK;
}

void bad_close(corrupt_samples_t *bad)
{
    if (!bad->opened) return;
    pthread_mutex_destroy(&bad->mutex);
    mem_free(&bad->images);
    bad->opened = false;
}

/* find_image, append_image and check_max are called under the mutex. */
static corrupt_sample_t *find_image(const corrupt_samples_t *bad, int64_t split, int64_t index)
{
    for (int64_t i = 0; i < bad->n; i++)
        if (bad->images[i].index == index && bad->images[i].split == split) return &bad->images[i];
    return NULL;
}

static err_t append_image(corrupt_samples_t *bad, const corrupt_sample_t *image)
{
    TRY(mem_grow(bad->n + 1, sizeof *bad->images, "the list of corrupt images", &bad->images));
    bad->images[bad->n++] = *image;
    return ERR_OK;
}

static err_t check_max(const corrupt_samples_t *bad)
{
    if (bad->n <= bad->max) return ERR_OK;
    const corrupt_sample_t *last = &bad->images[bad->n - 1];
    if (bad->max == 0) RAISE(ERR_DATA, "%s (--max-bad N %s)", last->reason, allowances[last->fate]);
    RAISE(ERR_DATA, "%s; %" PRId64 " images cannot be read, and --max-bad allows %" PRId64, last->reason,
          bad->n, bad->max);
}

int64_t bad_count(corrupt_samples_t *bad)
{
    pthread_mutex_lock(&bad->mutex);
    int64_t n = bad->n;
    pthread_mutex_unlock(&bad->mutex);
    return n;
}

int64_t bad_unshared(corrupt_samples_t *bad)
{
    int64_t n = 0;
    pthread_mutex_lock(&bad->mutex);
    for (int64_t i = 0; i < bad->n; i++) n += !bad->images[i].shared;
    pthread_mutex_unlock(&bad->mutex);
    return n;
}

err_t bad_add(corrupt_samples_t *bad, split_t split, int64_t index, corrupt_fate_t fate)
{
    corrupt_sample_t image = {.index = index, .split = (int32_t)split, .fate = (int32_t)fate};
    snprintf(image.reason, sizeof image.reason, "%s", err_message());
    pthread_mutex_lock(&bad->mutex);
    err_t err = find_image(bad, split, index) ? ERR_OK : append_image(bad, &image);
    if (err == ERR_OK) err = check_max(bad);
    pthread_mutex_unlock(&bad->mutex);
    return err;
}

corrupt_sample_t bad_offer(corrupt_samples_t *bad)
{
    corrupt_sample_t offer = {.index = -1};
    pthread_mutex_lock(&bad->mutex);
    for (int64_t i = bad->n - 1; i >= 0; i--)
        if (!bad->images[i].shared) offer = bad->images[i];
    pthread_mutex_unlock(&bad->mutex);
    return offer;
}

err_t bad_take(corrupt_samples_t *bad, const corrupt_sample_t *image, bool *is_new)
{
    err_t err = ERR_OK;
    pthread_mutex_lock(&bad->mutex);
    corrupt_sample_t *known = find_image(bad, image->split, image->index);
    *is_new = !known || !known->shared;
    if (!known) err = append_image(bad, image);
    if (err == ERR_OK) {
        known = find_image(bad, image->split, image->index);
        known->shared = true;
        err = check_max(bad);
    }
    pthread_mutex_unlock(&bad->mutex);
    return err;
}

/* One in use and one being filled; a third for images read in training, whose reading times vary. */
enum { N_SLOTS = 2, MAX_SLOTS = 3 };

/* A batch being filled. Threads enter it and take samples one by one. It is complete when all samples are
 * taken and the last thread has left, until it is released. */
typedef struct slot {
    batch_t batch;
    int64_t *wanted;   /* [max_local]: the sampler's indices; set before a thread enters */
    atomic_llong next; /* next sample to take */
    int n_inside;      /* from here on: under the mutex */
    bool complete;
    err_info_t error;
    int64_t error_at; /* the first sample with an error */
    double start_sec;
} slot_t;

typedef struct worker {
    loader_t *loader;
    pthread_t thread;
    bool started;
    dataset_reader_t reader;
    uint8_t *bytes; /* one image to jitter; raw: NULL */
    float *image;   /* one image before it is moved; NULL if not needed */
} worker_t;

struct loader {
    loader_options_t options;
    slot_t slots[MAX_SLOTS];
    int n_slots, n_workers;
    fields_t fields; /* of the samples */
    worker_t *workers;
    pixel_table_t table;
    bool moved, jittered; /* whether images in memory are moved by maps, and their colours jittered */
    int64_t n_taken;      /* used by the consumer only */
    bool synced;
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    atomic_bool stop;
    /* Under the mutex. Batch i occupies slot i % n_slots from opening to release. */
    int64_t n_allowed, n_opened, n_filled, n_released;
    int64_t epoch, number; /* of the next batch to open */
    bool failed;           /* open no more batches */
    loader_cost_t cost;
    double last_fill_sec;
};

/* Allocates `count` elements and touches their pages. */
static err_t make_block(const loader_t *loader, int64_t count, size_t element_bytes, const char *what,
                        void *out_pointer)
{
    void **out = out_pointer;
    size_t n_bytes = (size_t)count * element_bytes;
    if (loader->options.alloc)
        TRY(loader->options.alloc(n_bytes, what, out));
    else
        TRY(mem_new_array(count, element_bytes, what, out));
    mem_touch(*out, n_bytes);
    return ERR_OK;
}

static void release_block(const loader_t *loader, void *in_out_pointer)
{
    void **block = in_out_pointer;
    if (!loader->options.release) {
        mem_free(block);
        return;
    }
    if (*block) loader->options.release(*block);
    *block = NULL;
}

/* Allocates a batch and touches all its pages. */
static err_t make_slot(const loader_t *loader, slot_t *slot)
{
    const loader_options_t *o = &loader->options;
    const dataset_info_t *info = &o->dataset->info;
    int64_t n = o->max_local, n_image = info->height * info->width * info->channels;
    batch_t *b = &slot->batch;
    TRY(mem_new_array(n, sizeof *slot->wanted, "indices of a batch", &slot->wanted));
    TRY(mem_new_array(n, sizeof *b->index, "indices of a batch", &b->index));
    if (o->raw)
        TRY(make_block(loader, n * n_image, sizeof *b->bytes, "a batch of pixels", &b->bytes));
    else
        TRY(make_block(loader, n * n_image, sizeof *b->pixels, "a batch of pixels", &b->pixels));
    if (o->raw && loader->moved) TRY(make_block(loader, n, sizeof *b->maps, "a batch of maps", &b->maps));
    if (o->raw && samples_of(info->task)->on_canvas)
        TRY(mem_new_array(n, sizeof *b->places, "places of a batch", &b->places));
    for (int k = 0; k < loader->fields.n; k++) {
        const field_t *field = &loader->fields.at[k];
        batch_field_t *out = &b->fields[k];
        TRY(make_block(loader, n, field_sample_bytes(field), "a batch of fields", &out->data));
        if (field->max_rows == 0) continue;
        TRY(mem_new_array(n + 1, sizeof *out->offsets, "offsets of a batch", &out->offsets));
        mem_touch(out->offsets, (size_t)(n + 1) * sizeof *out->offsets);
    }
    return ERR_OK;
}

/* Puts an image on its canvas, or notes where it goes. */
static void put_on_canvas(const loader_t *loader, batch_t *batch, int64_t i, const dataset_sample_t *sample)
{
    const dataset_info_t *info = &loader->options.dataset->info;
    const canvas_place_t *place = sample->place;
    const int64_t first = i * info->height * info->width * info->channels;
    ASSERT(!loader->jittered && !loader->moved);
    if (!loader->options.raw) {
        canvas_normalize(place, sample->bytes, &loader->table, batch->pixels + first);
        return;
    }
    batch->places[i] = *place;
    memcpy(batch->bytes + first, sample->bytes,
           (size_t)(place->scaled.height * place->scaled.width * info->channels));
}

/* Transforms an image into its place in the batch. */
static void put_sample(worker_t *w, slot_t *slot, int64_t i, const dataset_sample_t *sample)
{
    const loader_t *loader = w->loader;
    const loader_options_t *o = &loader->options;
    const dataset_info_t *info = &o->dataset->info;
    batch_t *batch = &slot->batch;
    int64_t n_pixels = info->height * info->width, n_values = n_pixels * info->channels;
    const uint8_t *bytes = sample->bytes;
    if (sample->place) {
        put_on_canvas(loader, batch, i, sample);
        return;
    }
    if (o->raw || loader->jittered) {
        uint8_t *own = o->raw ? batch->bytes + i * n_values : w->bytes;
        memcpy(own, bytes, (size_t)n_values);
        /* Before the map, because backends that prepare pixels themselves receive both. */
        if (loader->jittered) {
            const image_rect_t whole = {0, 0, (double)info->width, (double)info->height};
            const transform_t t =
                transform_random(o->transform, o->seed, batch->epoch, batch->index[i], whole);
            jitter_apply(&t.jitter, own, n_pixels, info->channels);
        }
        bytes = own;
    }
    float *pixels = o->raw ? NULL : batch->pixels + i * n_values;
    if (!o->raw) pixel_table_apply(&loader->table, bytes, n_pixels, loader->moved ? w->image : pixels);
    if (!loader->moved) return;
    affine_t map = transform_in_memory(o->transform, o->seed, batch->epoch, batch->index[i],
                                       (map_size_t){info->height, info->width});
    if (o->raw)
        batch->maps[i] = map;
    else
        warp_pixels(&map, w->image, info->height, info->width, info->channels, pixels);
}

/* Reads the sample at *index or the first readable one after it, and sets *index to it. Samples that are
 * known to be corrupt are tried again: damage may affect only a part, and results must not depend on what
 * other threads have seen so far. */
static err_t read_sample(worker_t *w, int64_t epoch, int64_t *index, const field_place_t *fields,
                         dataset_sample_t *out)
{
    const loader_options_t *o = &w->loader->options;
    int64_t n = o->dataset->info.n_samples[o->split];
    dataset_request_t request = {.split = o->split,
                                 .index = *index,
                                 .random = o->random,
                                 .seed = o->seed,
                                 .epoch = epoch,
                                 .fields = fields};
    for (int64_t tries = 0; tries < n; tries++, request.index = (request.index + 1) % n) {
        request.near = sampler_near(o->sampler, request.index, o->size);
        err_t err = dataset_read(&w->reader, &request, out);
        *index = request.index;
        if (err != ERR_DATA || !o->bad) return err;
        TRY(bad_add(o->bad, o->split, w->reader.image, CORRUPT_REPLACED));
    }
    RAISE(ERR_DATA, "none of the %" PRId64 " %s images of %s can be read", n, split_words[o->split],
          o->dataset->info.source);
}

/* Closes the gaps between the ragged rows of a complete batch, and turns their counts into offsets. */
static void pack_fields(const loader_t *loader, slot_t *slot)
{
    for (int k = 0; k < loader->fields.n; k++) {
        const field_t *field = &loader->fields.at[k];
        batch_field_t *in = &slot->batch.fields[k];
        size_t n_row = field_row_bytes(field), n_sample = field_sample_bytes(field);
        char *data = in->data;
        if (!in->offsets) continue;
        in->offsets[0] = 0;
        for (int64_t i = 0; i < slot->batch.n; i++) {
            int64_t n_rows = in->offsets[i + 1];
            ASSERT(n_rows >= 0 && n_rows <= field->max_rows);
            memmove(data + (size_t)in->offsets[i] * n_row, data + (size_t)i * n_sample,
                    (size_t)n_rows * n_row);
            in->offsets[i + 1] = in->offsets[i] + n_rows;
        }
    }
}

/* Fills in sample i of the slot's batch: the sampler's, or its replacement. */
static err_t fill_sample(worker_t *w, slot_t *slot, int64_t i)
{
    batch_t *batch = &slot->batch;
    dataset_sample_t sample;
    field_place_t places[FIELDS_MAX];
    const fields_t *fields = &w->loader->fields;
    /* Ragged rows are apart until pack_fields; offsets[i + 1]: their number. */
    for (int k = 0; k < fields->n; k++) {
        const batch_field_t *in = &batch->fields[k];
        char *data = in->data;
        places[k] = (field_place_t){data + (size_t)i * field_sample_bytes(&fields->at[k]),
                                    in->offsets ? in->offsets + i + 1 : NULL};
    }
    batch->index[i] = slot->wanted[i];
    TRY(read_sample(w, batch->epoch, &batch->index[i], places, &sample));
    put_sample(w, slot, i, &sample);
    return ERR_OK;
}

/* The functions down to ring_enter are called under the mutex. */

static void note_error(loader_t *loader, slot_t *slot, int64_t at, err_t err)
{
    loader->failed = true;
    if (slot->error.code != ERR_OK && slot->error_at <= at) return;
    err_take(err, &slot->error);
    slot->error_at = at;
}

/* Complete batches become visible in order. */
static void ring_publish(loader_t *loader)
{
    for (; loader->n_filled < loader->n_opened; loader->n_filled++) {
        const slot_t *slot = &loader->slots[loader->n_filled % loader->n_slots];
        if (!slot->complete) break;
        double now = clock_sec(), start = slot->start_sec;
        /* Spans on one track must not overlap. */
        if (start < loader->last_fill_sec) start = loader->last_fill_sec;
        loader->last_fill_sec = now;
        int64_t n_epoch = sampler_batches(loader->options.sampler);
        if (loader->options.random)
            trace_add(TRACE_LOADER, &(trace_span_t){"fill", "phase", start, now,
                                                    slot->batch.epoch * n_epoch + slot->batch.batch, 0});
    }
    pthread_cond_broadcast(&loader->changed);
}

static void open_slot(loader_t *loader)
{
    const loader_options_t *o = &loader->options;
    slot_t *slot = &loader->slots[loader->n_opened % loader->n_slots];
    sampler_slice_t slice = sampler_at(o->sampler, loader->epoch, loader->number, o->rank, o->size);
    batch_t *batch = &slot->batch;
    batch->epoch = slice.epoch, batch->batch = slice.batch;
    batch->n_global = slice.n_global, batch->first = slice.first, batch->n = slice.n;
    if (o->first_only && batch->n > o->max_local) batch->n = o->max_local;
    slot->start_sec = clock_sec();
    slot->error = (err_info_t){.code = ERR_OK};
    if (batch->n > o->max_local) {
        note_error(loader, slot, 0,
                   err_raise(ERR_SYSTEM, __FILE__, __LINE__,
                             "the loader's buffers hold %" PRId64 " samples, but batch %" PRId64
                             " has %" PRId64,
                             o->max_local, slice.batch, slice.n));
        batch->n = 0;
    }
    memcpy(slot->wanted, slice.index, (size_t)batch->n * sizeof *slot->wanted);
    atomic_store(&slot->next, 0);
    slot->complete = batch->n == 0;
    loader->n_opened++;
    if (++loader->number == sampler_batches(o->sampler)) loader->number = 0, loader->epoch++;
    if (slot->complete)
        ring_publish(loader);
    else if (loader->n_workers > 1)
        pthread_cond_broadcast(&loader->changed); /* other threads may enter */
}

/* Waits for a batch with samples to take and enters it. NULL: stop. */
static slot_t *ring_enter(loader_t *loader)
{
    while (!atomic_load(&loader->stop)) {
        for (int64_t i = loader->n_filled; i < loader->n_opened; i++) {
            slot_t *slot = &loader->slots[i % loader->n_slots];
            if (slot->complete || atomic_load(&slot->next) >= slot->batch.n) continue;
            slot->n_inside++;
            return slot;
        }
        bool room = loader->n_opened - loader->n_released < loader->n_slots;
        if (room && loader->n_opened < loader->n_allowed && !loader->failed)
            open_slot(loader);
        else
            pthread_cond_wait(&loader->changed, &loader->mutex);
    }
    return NULL;
}

static void *run_worker(void *argument)
{
    worker_t *w = argument;
    loader_t *loader = w->loader;
    slot_t *slot;
    pthread_mutex_lock(&loader->mutex);
    while ((slot = ring_enter(loader))) {
        pthread_mutex_unlock(&loader->mutex);
        double start = clock_sec();
        dataset_cost_t before = w->reader.cost;
        int64_t i, n = slot->batch.n;
        while (!atomic_load(&loader->stop) && (i = atomic_fetch_add(&slot->next, 1)) < n) {
            err_t err = fill_sample(w, slot, i);
            if (err == ERR_OK) continue;
            pthread_mutex_lock(&loader->mutex);
            note_error(loader, slot, i, err);
            pthread_mutex_unlock(&loader->mutex);
        }
        double end = clock_sec();
        pthread_mutex_lock(&loader->mutex);
        const dataset_cost_t *after = &w->reader.cost;
        dataset_cost_t *sum = &loader->cost.part;
        sum->read += after->read - before.read;
        sum->decode += after->decode - before.decode;
        sum->resize += after->resize - before.resize;
        sum->cpu_wait += after->cpu_wait - before.cpu_wait;
        loader->cost.busy += end - start;
        if (--slot->n_inside > 0 || atomic_load(&slot->next) < slot->batch.n) continue;
        slot->complete = true;
        ring_publish(loader);
    }
    pthread_mutex_unlock(&loader->mutex);
    return NULL;
}

err_t loader_open(const loader_options_t *options, loader_t **out)
{
    ASSERT(options->batch >= 0 && options->batch < sampler_batches(options->sampler));
    ASSERT(options->max_local >= 0 && options->n_batches >= 0);
    ASSERT(!options->alloc == !options->release);
    const dataset_t *dataset = options->dataset;
    loader_t *loader = NULL;
    TRY(mem_new(sizeof *loader, "a loader", &loader));
    loader->options = *options;
    loader->n_slots = dataset->read && options->random ? MAX_SLOTS : N_SLOTS;
    loader->n_workers = options->n_threads > 0 ? options->n_threads : 1;
    loader->moved = options->transform && transform_moves(options->transform);
    loader->jittered = options->transform && transform_jitters(options->transform);
    loader->fields = options->fields ? *options->fields : samples_fields(&dataset->info);
    loader->n_allowed = options->n_batches;
    loader->epoch = options->epoch, loader->number = options->batch;
    if (!options->raw) pixel_table_make(&options->norm, dataset->info.channels, &loader->table);
    const int64_t n_image = dataset->info.height * dataset->info.width * dataset->info.channels;
    err_t err = ERR_OK;
    for (int i = 0; i < loader->n_slots; i++) TRY_OUT(err, make_slot(loader, &loader->slots[i]));
    TRY_OUT(err, mem_new_array(loader->n_workers, sizeof *loader->workers, "threads of a loader",
                               &loader->workers));
    for (int i = 0; i < loader->n_workers; i++) {
        worker_t *w = &loader->workers[i];
        w->loader = loader;
        TRY_OUT(err, dataset_reader_open(dataset, &w->reader));
        if (options->raw) continue;
        if (loader->jittered)
            TRY_OUT(err, mem_new_array(n_image, sizeof *w->bytes, "an image to jitter", &w->bytes));
        if (!loader->moved) continue;
        TRY_OUT(err, mem_new_array(n_image, sizeof *w->image, "an image to move", &w->image));
        mem_touch(w->image, (size_t)n_image * sizeof *w->image);
    }
    int status = thread_cond_init(&loader->changed);
    if (status != 0)
        RAISE_OUT(err, ERR_SYSTEM, "cannot create the loader's condition variable: %s", strerror(status));
    status = pthread_mutex_init(&loader->mutex, NULL);
    if (status != 0) {
        pthread_cond_destroy(&loader->changed);
        RAISE_OUT(err, ERR_SYSTEM, "cannot create the loader's mutex: %s", strerror(status));
    }
    loader->synced = true;
    for (int i = 0; i < loader->n_workers; i++) {
        worker_t *w = &loader->workers[i];
        status = thread_start(&w->thread, run_worker, w);
        if (status != 0) RAISE_OUT(err, ERR_SYSTEM, "cannot start a loader thread: %s", strerror(status));
        w->started = true;
        pthread_setname_np(w->thread, "loader");
    }
    *out = loader;
    return ERR_OK;
out:
    loader_close(&loader);
    return err;
}

err_t loader_next(loader_t *loader, const batch_t **out)
{
    struct timespec deadline = thread_time_after(loader->options.timeout_sec);
    slot_t *slot = &loader->slots[loader->n_taken % loader->n_slots];
    pthread_mutex_lock(&loader->mutex);
    ASSERT(loader->n_taken < loader->n_allowed);
    if (loader->n_released != loader->n_taken) {
        loader->n_released = loader->n_taken;
        pthread_cond_broadcast(&loader->changed);
    }
    int status = 0;
    while (loader->n_filled == loader->n_taken && status != ETIMEDOUT)
        status = pthread_cond_timedwait(&loader->changed, &loader->mutex, &deadline);
    bool ready = loader->n_filled > loader->n_taken;
    pthread_mutex_unlock(&loader->mutex);

    if (!ready)
        RAISE(ERR_SYSTEM, "no batch from %s within %g s: its storage hangs or is too slow for --timeout",
              loader->options.dataset->info.source, loader->options.timeout_sec);
    if (slot->error.code != ERR_OK) return err_put(&slot->error);
    pack_fields(loader, slot);
    loader->n_taken++;
    *out = &slot->batch;
    return ERR_OK;
}

void loader_allow(loader_t *loader, int64_t n)
{
    pthread_mutex_lock(&loader->mutex);
    loader->n_allowed += n;
    pthread_cond_broadcast(&loader->changed);
    pthread_mutex_unlock(&loader->mutex);
}

loader_cost_t loader_take_cost(loader_t *loader)
{
    pthread_mutex_lock(&loader->mutex);
    loader_cost_t cost = loader->cost;
    loader->cost = (loader_cost_t){0};
    pthread_mutex_unlock(&loader->mutex);
    return cost;
}

void loader_close(loader_t **in_out)
{
    loader_t *loader = *in_out;
    if (!loader) return;
    if (loader->synced) {
        pthread_mutex_lock(&loader->mutex);
        atomic_store(&loader->stop, true);
        pthread_cond_broadcast(&loader->changed);
        pthread_mutex_unlock(&loader->mutex);
    }
    for (int i = 0; loader->workers && i < loader->n_workers; i++) {
        worker_t *w = &loader->workers[i];
        if (w->started) pthread_join(w->thread, NULL);
        dataset_reader_close(&w->reader);
        mem_free(&w->bytes);
        mem_free(&w->image);
    }
    if (loader->synced) {
        pthread_cond_destroy(&loader->changed);
        pthread_mutex_destroy(&loader->mutex);
    }
    for (int i = 0; i < MAX_SLOTS; i++) { /* also what an error left */
        batch_t *batch = &loader->slots[i].batch;
        release_block(loader, &batch->pixels);
        release_block(loader, &batch->bytes);
        release_block(loader, &batch->maps);
        for (int k = 0; k < FIELDS_MAX; k++) {
            release_block(loader, &batch->fields[k].data);
            mem_free(&batch->fields[k].offsets);
        }
        mem_free(&batch->places);
        mem_free(&batch->index);
        mem_free(&loader->slots[i].wanted);
    }
    mem_free(&loader->workers);
    mem_free(in_out);
}
