/* SPDX-License-Identifier: MIT */
/* The prefetch ring: worker threads fill batches out of order, and the consumer receives them in order.
 * Memory and content of a batch are left to loader_slot.c. */
#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/process.h"
#include "data/image/image.h"
#include "data/load/loader_private.h"

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

/* The functions down to add_cost are called under the mutex. */

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

static void ring_leave(loader_t *loader, slot_t *slot)
{
    if (--slot->n_inside > 0 || atomic_load(&slot->next) < slot->batch.n) return;
    slot->complete = true;
    ring_publish(loader);
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

static void add_cost(loader_t *loader, const dataset_cost_t *before, const dataset_cost_t *after, double busy)
{
    dataset_cost_t *sum = &loader->cost.part;
    sum->read += after->read - before->read;
    sum->decode += after->decode - before->decode;
    sum->resize += after->resize - before->resize;
    sum->cpu_wait += after->cpu_wait - before->cpu_wait;
    loader->cost.busy += busy;
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
            err_t err = loader_fill_sample(w, slot, i);
            if (err == ERR_OK) continue;
            pthread_mutex_lock(&loader->mutex);
            note_error(loader, slot, i, err);
            pthread_mutex_unlock(&loader->mutex);
        }
        double end = clock_sec();
        pthread_mutex_lock(&loader->mutex);
        add_cost(loader, &before, &w->reader.cost, end - start);
        ring_leave(loader, slot);
    }
    pthread_mutex_unlock(&loader->mutex);
    return NULL;
}

static err_t make_sync(loader_t *loader)
{
    int status = thread_cond_init(&loader->changed);
    if (status != 0) RAISE(ERR_SYSTEM, "cannot create the loader's condition variable: %s", strerror(status));
    status = pthread_mutex_init(&loader->mutex, NULL);
    if (status != 0) {
        pthread_cond_destroy(&loader->changed);
        RAISE(ERR_SYSTEM, "cannot create the loader's mutex: %s", strerror(status));
    }
    loader->synced = true;
    return ERR_OK;
}

static err_t start_thread(worker_t *w)
{
    int status = thread_start(&w->thread, run_worker, w);
    if (status != 0) RAISE(ERR_SYSTEM, "cannot start a loader thread: %s", strerror(status));
    w->started = true;
    pthread_setname_np(w->thread, "loader");
    return ERR_OK;
}

static err_t make_all(loader_t *loader)
{
    for (int i = 0; i < loader->n_slots; i++) TRY(loader_make_slot(loader, &loader->slots[i]));
    TRY(mem_new_array(loader->n_workers, sizeof *loader->workers, "threads of a loader", &loader->workers));
    for (int i = 0; i < loader->n_workers; i++) TRY(loader_make_worker(loader, &loader->workers[i]));
    TRY(make_sync(loader));
    for (int i = 0; i < loader->n_workers; i++) TRY(start_thread(&loader->workers[i]));
    return ERR_OK;
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
    loader->n_slots = dataset->ops && dataset->ops->read && options->random ? MAX_SLOTS : N_SLOTS;
    loader->n_workers = options->n_threads > 0 ? options->n_threads : 1;
    loader->moved = options->transform && transform_moves(options->transform);
    loader->jittered = options->transform && transform_jitters(options->transform);
    loader->fields = options->fields ? *options->fields : samples_fields(&dataset->info);
    loader->n_allowed = options->n_batches;
    loader->epoch = options->epoch, loader->number = options->batch;
    if (!options->raw) pixel_table_make(&options->norm, dataset->info.channels, &loader->table);
    err_t err = make_all(loader);
    if (err != ERR_OK) {
        loader_close(&loader);
        return err;
    }
    *out = loader;
    return ERR_OK;
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
    loader_pack_fields(loader, slot);
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
        loader_free_worker(w);
    }
    if (loader->synced) {
        pthread_cond_destroy(&loader->changed);
        pthread_mutex_destroy(&loader->mutex);
    }
    for (int i = 0; i < MAX_SLOTS; i++) loader_free_slot(loader, &loader->slots[i]);
    mem_free(&loader->workers);
    mem_free(in_out);
}
