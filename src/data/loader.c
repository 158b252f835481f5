#include "data/loader.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/trace.h"

enum { N_BUFFERS = 2 };

struct loader {
    loader_options_t options;
    batch_t buffers[N_BUFFERS];
    bool augmented;
    float *picture;  /* one picture before its augmentation, where the loader does it */
    int64_t n_taken; /* the loop's alone */
    pthread_t thread;
    bool started, synced;
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    /* Under the mutex. Batch i lies in buffer i % N_BUFFERS from when it is filled until it is released. */
    int64_t n_filled, n_released;
    bool stop;
    err_info_t error; /* after the n_filled batches */
};

/* Keyed by epoch and dataset index: who reads a picture, and when, makes no difference. */
static void augment_batch(loader_t *loader, sampler_slice_t slice, float *pixels)
{
    const dataset_info_t *info = &loader->options.dataset->info;
    int64_t n_pixels = info->height * info->width * info->channels;
    for (int64_t i = 0; i < slice.n; i++, pixels += n_pixels) {
        augment_map_t map = augment_draw(loader->options.augment, slice.epoch, slice.index[i]);
        memcpy(loader->picture, pixels, (size_t)n_pixels * sizeof *pixels);
        augment_apply(&map, loader->picture, info->height, info->width, info->channels, pixels);
    }
}

/* How its pictures are to be changed. */
static void map_batch(const loader_t *loader, sampler_slice_t slice, affine_t *maps)
{
    const dataset_info_t *info = &loader->options.dataset->info;
    for (int64_t i = 0; i < slice.n; i++) {
        augment_map_t map = augment_draw(loader->options.augment, slice.epoch, slice.index[i]);
        maps[i] = augment_matrix(&map, info->height, info->width);
    }
}

static err_t fill(loader_t *loader, int64_t epoch, int64_t number, batch_t *out)
{
    const loader_options_t *o = &loader->options;
    sampler_slice_t slice = sampler_at(o->sampler, epoch, number, o->rank, o->size);
    if (slice.n > o->max_local)
        RAISE(ERR_SYSTEM, "the loader's buffers hold %" PRId64 " samples, but batch %" PRId64 " has %" PRId64,
              o->max_local, number, slice.n);
    out->epoch = slice.epoch;
    out->batch = slice.batch;
    out->n_global = slice.n_global;
    out->first = slice.first;
    out->n = slice.n;
    const dataset_info_t *info = &o->dataset->info;
    if (o->raw) {
        dataset_read_bytes(o->dataset, SPLIT_TRAIN, slice.index, slice.n, out->bytes, out->labels);
        if (loader->augmented) map_batch(loader, slice, out->maps);
        return ERR_OK;
    }
    dataset_read(o->dataset, SPLIT_TRAIN, slice.index, slice.n, info->mean, info->std, out->pixels,
                 out->labels);
    if (loader->augmented) augment_batch(loader, slice, out->pixels);
    return ERR_OK;
}

/* Until a buffer is free; false: stop. */
static bool wait_for_room(loader_t *loader)
{
    pthread_mutex_lock(&loader->mutex);
    while (!loader->stop && loader->n_filled - loader->n_released == N_BUFFERS)
        pthread_cond_wait(&loader->changed, &loader->mutex);
    bool go_on = !loader->stop;
    pthread_mutex_unlock(&loader->mutex);
    return go_on;
}

static void *produce(void *argument)
{
    loader_t *loader = argument;
    int64_t n_epoch = sampler_batches(loader->options.sampler);
    int64_t epoch = loader->options.epoch, number = loader->options.batch;
    err_t err = ERR_OK;
    for (int64_t i = 0; i < loader->options.n_batches && err == ERR_OK && wait_for_room(loader); i++) {
        double start = clock_sec();
        err = fill(loader, epoch, number, &loader->buffers[i % N_BUFFERS]);
        trace_add(TRACE_LOADER,
                  &(trace_span_t){"fill", "phase", start, clock_sec(), epoch * n_epoch + number, 0});
        pthread_mutex_lock(&loader->mutex);
        if (err == ERR_OK)
            loader->n_filled++;
        else
            err_take(err, &loader->error);
        pthread_cond_signal(&loader->changed);
        pthread_mutex_unlock(&loader->mutex);
        if (++number == n_epoch) {
            number = 0;
            epoch++;
        }
    }
    return NULL;
}

/* `count` elements of a batch, with no page fault left in them. */
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

static err_t make_buffers(loader_t *loader)
{
    const loader_options_t *o = &loader->options;
    const dataset_info_t *info = &o->dataset->info;
    int64_t n = o->max_local, n_picture = info->height * info->width * info->channels;
    loader->augmented = o->augment && augment_active(&o->augment->options);
    for (int i = 0; i < N_BUFFERS; i++) {
        batch_t *b = &loader->buffers[i];
        if (o->raw)
            TRY(make_block(loader, n * n_picture, sizeof *b->bytes, "a batch of pixels", &b->bytes));
        else
            TRY(make_block(loader, n * n_picture, sizeof *b->pixels, "a batch of pixels", &b->pixels));
        if (o->raw && loader->augmented)
            TRY(make_block(loader, n, sizeof *b->maps, "a batch of maps", &b->maps));
        TRY(make_block(loader, n, sizeof *b->labels, "a batch of labels", &b->labels));
    }
    if (o->raw || !loader->augmented) return ERR_OK;
    TRY(mem_new_array(n_picture, sizeof *loader->picture, "a picture to augment", &loader->picture));
    mem_touch(loader->picture, (size_t)n_picture * sizeof *loader->picture);
    return ERR_OK;
}

static err_t make_sync(loader_t *loader)
{
    pthread_condattr_t attributes;
    int status = pthread_condattr_init(&attributes);
    if (status == 0) {
        /* A step of the wall clock must not end a wait. */
        status = pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
        if (status == 0) status = pthread_cond_init(&loader->changed, &attributes);
        pthread_condattr_destroy(&attributes);
    }
    if (status != 0) RAISE(ERR_SYSTEM, "the loader cannot make a condition variable: %s", strerror(status));
    status = pthread_mutex_init(&loader->mutex, NULL);
    if (status != 0) {
        pthread_cond_destroy(&loader->changed);
        RAISE(ERR_SYSTEM, "the loader cannot make a mutex: %s", strerror(status));
    }
    loader->synced = true;
    return ERR_OK;
}

/* Signals are the main thread's business: the new thread inherits a mask that blocks them, all but those that
 * its own faults raise. */
static err_t start_thread(loader_t *loader)
{
    static const int own[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP};
    sigset_t blocked, before;
    sigfillset(&blocked);
    for (size_t i = 0; i < sizeof own / sizeof *own; i++) sigdelset(&blocked, own[i]);
    pthread_sigmask(SIG_SETMASK, &blocked, &before);
    int status = pthread_create(&loader->thread, NULL, produce, loader);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (status != 0) RAISE(ERR_SYSTEM, "the loader cannot start its thread: %s", strerror(status));
    loader->started = true;
    pthread_setname_np(loader->thread, "loader");
    return ERR_OK;
}

err_t loader_open(const loader_options_t *options, loader_t **out)
{
    ASSERT(options->batch >= 0 && options->batch < sampler_batches(options->sampler));
    ASSERT(options->max_local >= 0 && options->n_batches >= 0);
    ASSERT(!options->alloc == !options->release);
    loader_t *loader = NULL;
    TRY(mem_new(sizeof *loader, "a loader", &loader));
    loader->options = *options;
    err_t err = ERR_OK;
    TRY_OUT(err, make_buffers(loader));
    TRY_OUT(err, make_sync(loader));
    TRY_OUT(err, start_thread(loader));
    *out = loader;
    return ERR_OK;
out:
    loader_close(&loader);
    return err;
}

static struct timespec deadline_after(double seconds)
{
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    at.tv_sec += (time_t)seconds;
    at.tv_nsec += (long)(1e9 * (seconds - (double)(time_t)seconds));
    if (at.tv_nsec >= 1000000000L) {
        at.tv_nsec -= 1000000000L;
        at.tv_sec++;
    }
    return at;
}

err_t loader_next(loader_t *loader, const batch_t **out)
{
    ASSERT(loader->n_taken < loader->options.n_batches);
    struct timespec deadline = deadline_after(loader->options.timeout_sec);
    pthread_mutex_lock(&loader->mutex);
    if (loader->n_released != loader->n_taken) {
        loader->n_released = loader->n_taken;
        pthread_cond_signal(&loader->changed);
    }
    int status = 0;
    while (loader->n_filled == loader->n_taken && loader->error.code == ERR_OK && status != ETIMEDOUT)
        status = pthread_cond_timedwait(&loader->changed, &loader->mutex, &deadline);
    bool ready = loader->n_filled > loader->n_taken;
    bool failed = loader->error.code != ERR_OK;
    pthread_mutex_unlock(&loader->mutex);

    if (!ready && failed) return err_put(&loader->error);
    if (!ready)
        RAISE(ERR_SYSTEM,
              "no batch from %s within %g s: the storage behind it hangs or is too slow for --timeout",
              loader->options.dataset->info.source, loader->options.timeout_sec);
    *out = &loader->buffers[loader->n_taken++ % N_BUFFERS];
    return ERR_OK;
}

void loader_close(loader_t **in_out)
{
    loader_t *loader = *in_out;
    if (!loader) return;
    if (loader->started) {
        pthread_mutex_lock(&loader->mutex);
        loader->stop = true;
        pthread_cond_signal(&loader->changed);
        pthread_mutex_unlock(&loader->mutex);
        pthread_join(loader->thread, NULL);
    }
    if (loader->synced) {
        pthread_cond_destroy(&loader->changed);
        pthread_mutex_destroy(&loader->mutex);
    }
    for (int i = 0; i < N_BUFFERS; i++) {
        batch_t *buffer = &loader->buffers[i];
        release_block(loader, &buffer->pixels);
        release_block(loader, &buffer->bytes);
        release_block(loader, &buffer->maps);
        release_block(loader, &buffer->labels);
    }
    mem_free(&loader->picture);
    mem_free(in_out);
}
