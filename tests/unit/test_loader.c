/* SPDX-License-Identifier: MIT */
/* RUN np=0
 * The loader delivers what the sampler names, allocates nothing on the way, stops at any moment, and neither
 * hangs with its storage nor loses its errors. Slow storage is a page of pixels that cannot be read until the
 * test allows it. */
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/mem.h"
#include "data/load/loader.h"
#include "data/transform/map.h"
#include "tests/tap.h"

enum { N = 23, SIDE = 5, N_PIXELS = SIDE * SIDE, BATCH = 6 };
enum { N_PER_EPOCH = (N + BATCH - 1) / BATCH, N_BATCHES = 3 * N_PER_EPOCH };

static uint8_t pixels[N * N_PIXELS], labels[N];
static dataset_t dataset = {
    .info = {.kind = "test", .source = "the test's set", .height = SIDE, .width = SIDE}};

static err_t make(int64_t n_samples, int64_t global_batch, uint64_t seed, sampler_t **out)
{
    sampler_options_t options = {.n_samples = n_samples, .global_batch = global_batch, .seed = seed};
    return sampler_new(&options, out);
}

enum { SEED = 6 };

static loader_options_t options_for(sampler_t *sampler, int rank, int size)
{
    return (loader_options_t){.dataset = &dataset,
                              .sampler = sampler,
                              .rank = rank,
                              .size = size,
                              .n_batches = N_BATCHES,
                              .max_local = BATCH,
                              .timeout_sec = 60,
                              .norm = {{0.5}, {0.25}},
                              .seed = SEED};
}

static bool same_batch(const batch_t *batch, sampler_slice_t slice)
{
    if (batch->epoch != slice.epoch || batch->batch != slice.batch || batch->n_global != slice.n_global ||
        batch->first != slice.first || batch->n != slice.n)
        return false;
    for (int64_t i = 0; i < slice.n; i++) {
        if (((const int32_t *)batch->fields[0].data)[i] != labels[slice.index[i]]) return false;
        for (int k = 0; k < N_PIXELS; k++) {
            float expected = (float)((pixels[slice.index[i] * N_PIXELS + k] / 255.0 - 0.5) / 0.25);
            if (batch->pixels[i * N_PIXELS + k] != expected) return false;
        }
    }
    return true;
}

/* Three epochs from position (epoch, first), compared with the sampler. */
static bool delivers(int rank, int size, int64_t epoch, int64_t first)
{
    sampler_t *sampler = NULL, *expected = NULL;
    loader_t *loader = NULL;
    if (make(N, BATCH, 4, &sampler) || make(N, BATCH, 4, &expected)) abort();
    loader_options_t options = options_for(sampler, rank, size);
    options.epoch = epoch;
    options.batch = first;
    if (loader_open(&options, &loader) != ERR_OK) abort();
    bool right = true;
    int64_t n_blocks = mem_count();
    for (int64_t i = 0; i < N_BATCHES; i++) {
        const batch_t *batch;
        int64_t at = first + i;
        right =
            right && loader_next(loader, &batch) == ERR_OK &&
            same_batch(batch, sampler_at(expected, epoch + at / N_PER_EPOCH, at % N_PER_EPOCH, rank, size));
    }
    right = right && mem_count() == n_blocks;
    loader_close(&loader);
    sampler_free(&sampler);
    sampler_free(&expected);
    return right;
}

static void test_delivers(void)
{
    OK(delivers(0, 1, 0, 0), "all batches on one rank, without an allocation");
    bool all = true;
    for (int rank = 0; rank < 7; rank++) all = delivers(rank, 7, 0, 0) && all;
    OK(all, "… on each of 7 ranks, of which some get nothing");
    OK(delivers(1, 2, 5, 2), "… from the middle of an epoch");
}

/* first_only: the beginnings of batches, in less memory. */
static void test_first_only(void)
{
    sampler_t *sampler = NULL, *expected = NULL;
    loader_t *loader = NULL;
    if (make(N, BATCH, 4, &sampler) || make(N, BATCH, 4, &expected)) abort();
    loader_options_t options = options_for(sampler, 0, 1);
    options.first_only = true;
    options.max_local = BATCH - 2;
    if (loader_open(&options, &loader) != ERR_OK) abort();
    bool right = true;
    for (int64_t i = 0; i < N_PER_EPOCH; i++) {
        const batch_t *batch;
        sampler_slice_t slice = sampler_at(expected, 0, i, 0, 1);
        if (slice.n > options.max_local) slice.n = options.max_local;
        right = right && loader_next(loader, &batch) == ERR_OK && same_batch(batch, slice);
    }
    OK(right, "only the first samples of each batch");
    loader_close(&loader);
    sampler_free(&sampler);
    sampler_free(&expected);
}

/* A whole run with augmentation as one rank of `size` in batches of `batch`, from position (epoch, first):
 * each image goes to `seen`, by epoch and dataset index. False: an error, or an allocation on the way. */
typedef float seen_t[3][N][N_PIXELS];
static int n_threads = 1;
static bool collect(const transform_settings_t *transform, int rank, int size, int64_t batch_size,
                    int64_t first, seen_t seen)
{
    sampler_t *sampler = NULL, *same = NULL;
    loader_t *loader = NULL;
    if (make(N, batch_size, 4, &sampler) || make(N, batch_size, 4, &same)) abort();
    loader_options_t options = options_for(sampler, rank, size);
    options.transform = transform;
    options.n_threads = n_threads;
    options.max_local = batch_size;
    options.batch = first;
    options.n_batches = 3 * sampler_batches(sampler) - first;
    if (loader_open(&options, &loader) != ERR_OK) abort();
    bool right = true;
    int64_t n_blocks = mem_count();
    for (int64_t i = 0; right && i < options.n_batches; i++) {
        const batch_t *batch;
        right = loader_next(loader, &batch) == ERR_OK;
        if (!right) break;
        sampler_slice_t slice = sampler_at(same, batch->epoch, batch->batch, rank, size);
        for (int64_t k = 0; k < slice.n; k++)
            memcpy(seen[batch->epoch][slice.index[k]], batch->pixels + k * N_PIXELS, sizeof seen[0][0]);
    }
    right = right && mem_count() == n_blocks;
    loader_close(&loader);
    sampler_free(&sampler);
    sampler_free(&same);
    return right;
}

static const transform_settings_t idle, turning = {.affine = {20, .1, 5, .1, true}};
static seen_t plain, augmented, seen;

static bool same_image(const float *a, const float *b)
{
    return memcmp(a, b, N_PIXELS * sizeof *a) == 0;
}

/* All ranks of `size` together show what one rank did. */
static bool same_run(int size, int64_t batch_size)
{
    bool right = true;
    memset(seen, 0, sizeof seen);
    for (int rank = 0; rank < size; rank++)
        right = collect(&turning, rank, size, batch_size, 0, seen) && right;
    return right && memcmp(seen, augmented, sizeof seen) == 0;
}

/* What is not seen again is zero. */
static bool same_from(int64_t first)
{
    bool right = collect(&turning, 0, 1, BATCH, first, memset(seen, 0, sizeof seen));
    int n_seen = 0;
    for (int epoch = 0; epoch < 3; epoch++)
        for (int i = 0; i < N; i++)
            if (!same_image(seen[epoch][i], (float[N_PIXELS]){0})) {
                right = right && same_image(seen[epoch][i], augmented[epoch][i]);
                n_seen++;
            }
    return right && n_seen == 3 * N - first * BATCH;
}

static void test_augments(void)
{
    OK(collect(&turning, 0, 1, BATCH, 0, augmented), "with augmentation, without an allocation");
    collect(NULL, 0, 1, BATCH, 0, plain);
    bool as_drawn = true, changed = true, anew = true;
    for (int epoch = 0; epoch < 3; epoch++)
        for (int i = 0; i < N; i++) {
            random_affine_t map = random_affine_draw(&turning.affine, SEED, epoch, i);
            float drawn[N_PIXELS];
            affine_t affine = random_affine_matrix(&map, SIDE, SIDE);
            warp_pixels(&affine, plain[epoch][i], SIDE, SIDE, 1, drawn);
            as_drawn = as_drawn && same_image(drawn, augmented[epoch][i]);
            changed = changed && !same_image(plain[epoch][i], augmented[epoch][i]);
            anew = anew && !same_image(augmented[epoch][i], augmented[(epoch + 1) % 3][i]);
        }
    OK(as_drawn, "… each image is changed by the map of its epoch and dataset index");
    OK(changed && anew, "… always, and otherwise in every epoch");
    OK(same_run(2, BATCH) && same_run(3, BATCH), "… the same on 2 and on 3 ranks");
    OK(same_run(1, 1) && same_run(1, 4) && same_run(3, N), "… and in batches of another size");
    OK(same_from(2), "… and from the middle of an epoch");
    n_threads = 3;
    OK(same_run(1, BATCH) && same_run(2, 4) && same_from(1), "… and on 3 threads");
    n_threads = 1;

    int64_t n_before = mem_count();
    collect(NULL, 0, 1, BATCH, 0, plain);
    int64_t n_blocks = mem_count() - n_before;
    bool read = collect(&idle, 0, 1, BATCH, 0, seen);
    OK(read && memcmp(seen, plain, sizeof seen) == 0 && mem_count() - n_before == 2 * n_blocks,
       "no augmentation: images as they are, without a buffer");
}

/* Memory of the caller's, counted. */
static int n_made, n_released;

static err_t make_block(size_t n_bytes, const char *what, void **out)
{
    if (strncmp(what, "a batch of ", 11) != 0) abort();
    *out = malloc(n_bytes);
    if (!*out) abort();
    n_made++;
    return ERR_OK;
}

static err_t make_two_blocks(size_t n_bytes, const char *what, void **out)
{
    if (n_made == 2) RAISE(ERR_SYSTEM, "no memory for %s", what);
    return make_block(n_bytes, what, out);
}

static void release_block(void *block)
{
    free(block);
    n_released++;
}

/* One raw batch, with the arithmetic done here, is what the loader's own gave. */
static bool same_as_seen(const transform_settings_t *transform, const batch_t *batch, sampler_slice_t slice,
                         seen_t expected)
{
    if (batch->pixels || !batch->maps != !transform || batch->n != slice.n) return false;
    for (int64_t i = 0; i < slice.n; i++) {
        float image[N_PIXELS], moved[N_PIXELS];
        for (int k = 0; k < N_PIXELS; k++)
            image[k] = (float)((batch->bytes[i * N_PIXELS + k] / 255.0 - 0.5) / 0.25);
        memcpy(moved, image, sizeof moved);
        if (transform) warp_pixels(&batch->maps[i], image, SIDE, SIDE, 1, moved);
        if (!same_image(moved, expected[slice.epoch][slice.index[i]])) return false;
        if (((const int32_t *)batch->fields[0].data)[i] != labels[slice.index[i]]) return false;
    }
    return true;
}

static bool raw_run(const transform_settings_t *transform, bool own_memory, int rank, int size,
                    seen_t expected)
{
    sampler_t *sampler = NULL, *same = NULL;
    loader_t *loader = NULL;
    if (make(N, BATCH, 4, &sampler) || make(N, BATCH, 4, &same)) abort();
    loader_options_t options = options_for(sampler, rank, size);
    options.transform = transform;
    options.raw = true;
    if (own_memory) options.alloc = make_block, options.release = release_block;
    n_made = n_released = 0;
    if (loader_open(&options, &loader) != ERR_OK) abort();
    bool right = n_made == (!own_memory ? 0 : transform ? 6 : 4);
    int64_t n_blocks = mem_count();
    for (int64_t i = 0; right && i < N_BATCHES; i++) {
        const batch_t *batch;
        right = loader_next(loader, &batch) == ERR_OK &&
                same_as_seen(transform, batch, sampler_at(same, batch->epoch, batch->batch, rank, size),
                             expected);
    }
    right = right && mem_count() == n_blocks;
    loader_close(&loader);
    sampler_free(&sampler);
    sampler_free(&same);
    return right && n_released == n_made;
}

static void test_raw(void)
{
    OK(raw_run(NULL, false, 0, 1, plain), "raw batches and the arithmetic: the same bits");
    OK(raw_run(&turning, false, 0, 1, augmented), "… with the maps of augmentation");
    static const transform_settings_t all = {.crop = CROP_RANDOM,
                                             .crop_scale = 0.5,
                                             .brightness = 0.3,
                                             .contrast = 0.2,
                                             .affine = {20, .1, 5, .1, true}};
    static seen_t changed;
    OK(collect(&all, 0, 1, BATCH, 0, changed) && memcmp(changed, augmented, sizeof changed) != 0 &&
           raw_run(&all, false, 0, 1, changed),
       "… and of random crops, with colours jittered: the same bits");
    OK(raw_run(NULL, true, 1, 2, plain) && raw_run(&turning, true, 0, 2, augmented),
       "… in memory of the caller's, on 2 ranks");

    sampler_t *sampler = NULL;
    loader_t *loader = NULL;
    if (make(N, BATCH, 4, &sampler)) abort();
    loader_options_t options = options_for(sampler, 0, 1);
    options.alloc = make_two_blocks, options.release = release_block;
    n_made = n_released = 0;
    OK(loader_open(&options, &loader) == ERR_SYSTEM && !loader && strstr(err_message(), "no memory for") &&
           n_released == 2,
       "memory that cannot be had is the caller's error, and the rest is given back");
    sampler_free(&sampler);
}

static void test_close(void)
{
    sampler_t *sampler = NULL;
    bool closed = true;
    if (make(N, BATCH, 4, &sampler)) abort();
    for (int n_taken = 0; n_taken <= N_BATCHES; n_taken++) {
        loader_options_t options = options_for(sampler, 0, 1);
        loader_t *loader = NULL;
        const batch_t *batch;
        if (loader_open(&options, &loader) != ERR_OK) abort();
        for (int i = 0; i < n_taken; i++) closed = loader_next(loader, &batch) == ERR_OK && closed;
        loader_close(&loader);
        closed = closed && !loader;
    }
    OK(closed, "it closes after any number of batches");
    loader_t *none = NULL;
    loader_close(&none);
    OK(!none, "closing nothing");
    sampler_free(&sampler);
}

static void test_error(void)
{
    sampler_t *sampler = NULL;
    loader_t *loader = NULL;
    const batch_t *batch;
    if (make(N, BATCH, 4, &sampler)) abort();
    loader_options_t options = options_for(sampler, 0, 1);
    options.max_local = BATCH - 1; /* too small for all but the last batch */
    options.batch = N_PER_EPOCH - 1;
    if (loader_open(&options, &loader) != ERR_OK) abort();
    OK_CALL(loader_next(loader, &batch), "a batch before an error in the thread");
    OK(loader_next(loader, &batch) == ERR_SYSTEM && strstr(err_message(), "buffers hold 5 samples"),
       "the thread's error surfaces with its message");
    err_raise(ERR_USAGE, "", 0, "another");
    OK(loader_next(loader, &batch) == ERR_SYSTEM && strstr(err_message(), "buffers hold 5 samples"),
       "… each time");
    loader_close(&loader);
    sampler_free(&sampler);
}

static int gate[2]; /* a pipe: a byte opens the page */
static uint8_t *page;
static size_t n_page;
static volatile sig_atomic_t n_faults, thread_blocks_signals;

static void on_fault(int signal)
{
    sigset_t blocked;
    char byte;
    (void)signal;
    if (pthread_sigmask(SIG_BLOCK, NULL, &blocked) == 0)
        thread_blocks_signals = sigismember(&blocked, SIGTERM) == 1 && sigismember(&blocked, SIGUSR1) == 1;
    n_faults++;
    if (read(gate[0], &byte, 1) != 1 || mprotect(page, n_page, PROT_READ) != 0) _exit(9);
}

static void test_slow_storage(void)
{
    sampler_t *sampler = NULL;
    loader_t *loader = NULL;
    const batch_t *batch;
    n_page = (size_t)sysconf(_SC_PAGESIZE);
    page = mmap(NULL, n_page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED || pipe(gate) != 0 || make(N, BATCH, 4, &sampler)) abort();
    memcpy(page, pixels, sizeof pixels);
    mprotect(page, n_page, PROT_NONE);
    dataset.pixels[SPLIT_TRAIN] = page;
    struct sigaction action = {.sa_handler = on_fault}, before;
    sigaction(SIGSEGV, &action, &before);

    loader_options_t options = options_for(sampler, 0, 1);
    options.timeout_sec = 0.02;
    if (loader_open(&options, &loader) != ERR_OK) abort();
    OK(loader_next(loader, &batch) == ERR_SYSTEM && strstr(err_message(), "the test's set") &&
           strstr(err_message(), "0.02 s"),
       "storage that hangs ends the wait with an error that names the dataset");
    if (write(gate[1], "x", 1) != 1) abort();
    err_t err;
    while ((err = loader_next(loader, &batch)) == ERR_SYSTEM) continue;
    sampler_t *expected = NULL;
    if (make(N, BATCH, 4, &expected)) abort();
    OK(err == ERR_OK && same_batch(batch, sampler_at(expected, 0, 0, 0, 1)),
       "when it comes back, no batch is lost");
    loader_close(&loader);
    OK(n_faults == 1 && thread_blocks_signals, "the thread leaves signals to others");

    /* Closing while the thread is in a read: it ends with that read. */
    mprotect(page, n_page, PROT_NONE);
    if (write(gate[1], "x", 1) != 1) abort();
    if (loader_open(&options, &loader) != ERR_OK) abort();
    loader_close(&loader);
    OK(!loader, "closing during the first read");
    sigaction(SIGSEGV, &before, NULL);
    dataset.pixels[SPLIT_TRAIN] = pixels;
    sampler_free(&sampler);
    sampler_free(&expected);
    munmap(page, n_page);
}

int main(void)
{
    for (int i = 0; i < N; i++) labels[i] = (uint8_t)(i % 10);
    for (size_t i = 0; i < sizeof pixels; i++) pixels[i] = (uint8_t)(i * 41);
    dataset.pixels[SPLIT_TRAIN] = pixels;
    dataset.labels[SPLIT_TRAIN] = labels;
    dataset.info.n_samples[SPLIT_TRAIN] = N;
    dataset.info.channels = 1;
    tap_plan(3 + 1 + 8 + 5 + 2 + 3 + 4 + 1);
    test_delivers();
    test_first_only();
    test_augments();
    test_raw();
    test_close();
    test_error();
    test_slow_storage();
    OK(mem_live() == 0, "every block was freed");
    return tap_done();
}
