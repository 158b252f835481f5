/* SPDX-License-Identifier: MIT */
/* RUN np=0 device=ref,cpu,cuda : batches on their way to where they are computed on: what arrives is what the
 * sampler names, also where a device takes its time over copies: on the device itself, and on one that copies
 * as late as it may. */
#include <string.h>

#include "data/transform/map.h"
#include "tests/op_util.h"
#include "tests/tap.h"
#include "train/feed/prefetcher.h"

enum { N = 23, SIDE = 5, N_PIXELS = SIDE * SIDE, BATCH = 6 };
enum { N_PER_EPOCH = (N + BATCH - 1) / BATCH, N_BATCHES = 3 * N_PER_EPOCH };

static uint8_t pixels[N * N_PIXELS], labels[N];
static dataset_t dataset = {
    .info = {.kind = "test", .source = "the test's set", .height = SIDE, .width = SIDE, .channels = 1}};
static const transform_settings_t turning = {.affine = {20, .1, 5, .1, true}};
enum { SEED = 6 };
static const pixel_norm_t norm = {{0.5}, {0.25}};

/* A device whose memory is the host's. Nothing happens before somebody waits for it; copies ahead of the work
 * are waited for by prefetch_sync, or with the work, which comes after them. */
enum { MAX_JOBS = 8 };
typedef struct job {
    void *to;
    const void *from;
    size_t n_bytes;
    pixels_args_t pixels; /* where `to` is NULL */
} job_t;

static prefetcher_t prefetcher;
static struct {
    job_t copies[MAX_JOBS], work[MAX_JOBS];
    int n_copies, n_work;
    int64_t n_fetched; /* batches, with the one that the copies are of */
    bool overtaken;    /* a batch was fetched while the one before was not copied yet */
} late;

static void add(job_t *jobs, int *n, job_t job)
{
    ASSERT(*n < MAX_JOBS);
    jobs[(*n)++] = job;
}

static err_t late_prefetch_sync(void)
{
    for (int i = 0; i < late.n_copies; i++)
        memcpy(late.copies[i].to, late.copies[i].from, late.copies[i].n_bytes);
    late.n_copies = 0;
    return ERR_OK;
}

static err_t late_prefetch(void *device, const void *host, size_t n_bytes)
{
    late.overtaken |= late.n_copies > 0 && late.n_fetched != prefetcher.n_fetched;
    late.n_fetched = prefetcher.n_fetched;
    add(late.copies, &late.n_copies, (job_t){device, host, n_bytes, {0}});
    return ERR_OK;
}

static err_t late_prefetched(void)
{
    return ERR_OK;
}

static err_t late_copy(void *to, const void *from, size_t n_bytes)
{
    add(late.work, &late.n_work, (job_t){to, from, n_bytes, {0}});
    return ERR_OK;
}

static err_t late_pixels(const pixels_args_t *args)
{
    add(late.work, &late.n_work, (job_t){.pixels = *args});
    return ERR_OK;
}

/* On the host, as pixels_args_t says. */
static void prepare(const pixels_args_t *a)
{
    for (int64_t i = 0; i < a->n; i++) {
        float image[N_PIXELS], *to = a->pixels + i * N_PIXELS;
        for (int k = 0; k < N_PIXELS; k++)
            image[k] = (float)((a->bytes[i * N_PIXELS + k] / 255.0 - a->norm.mean[0]) / a->norm.std[0]);
        if (a->maps)
            warp_pixels(&a->maps[i], image, SIDE, SIDE, 1, to);
        else
            memcpy(to, image, sizeof image);
    }
}

static err_t late_sync(void)
{
    TRY(late_prefetch_sync());
    for (int i = 0; i < late.n_work; i++) {
        if (late.work[i].to)
            memcpy(late.work[i].to, late.work[i].from, late.work[i].n_bytes);
        else
            prepare(&late.work[i].pixels);
    }
    late.n_work = 0;
    return ERR_OK;
}

static err_t late_alloc(size_t n_bytes, const char *what, void **out)
{
    return mem_new(n_bytes, what, out);
}

static void late_release(void *block)
{
    mem_free(&block);
}

static err_t late_download(void *host, const void *device, size_t n_bytes)
{
    return late_copy(host, device, n_bytes);
}

static const backend_memory_t late_memory = {
    .alloc = late_alloc,
    .release = late_release,
    .alloc_host = late_alloc,
    .release_host = late_release,
    .download = late_download,
    .copy = late_copy,
    .prefetch = late_prefetch,
    .prefetched = late_prefetched,
    .prefetch_sync = late_prefetch_sync,
    .sync = late_sync,
};
static const backend_t late_device = {.name = "late", .memory = &late_memory, .pixels = late_pixels};

static sampler_t *make_sampler(void)
{
    sampler_t *sampler = NULL;
    const sampler_options_t options = {.n_samples = N, .global_batch = BATCH, .seed = 4};
    must(sampler_new(&options, &sampler), "a sampler");
    return sampler;
}

/* Whether pixels and labels are those of the slice. */
static bool same_samples(const transform_settings_t *transform, sampler_slice_t slice, const float *got,
                         const int32_t *got_labels)
{
    for (int64_t i = 0; i < slice.n; i++) {
        float expected[N_PIXELS];
        affine_t map = {{0}, {0}};
        if (transform) {
            random_affine_t drawn = random_affine_draw(&transform->affine, SEED, slice.epoch, slice.index[i]);
            map = random_affine_matrix(&drawn, SIDE, SIDE);
        }
        const pixels_args_t args = {.bytes = pixels + slice.index[i] * N_PIXELS,
                                    .maps = transform ? &map : NULL,
                                    .n = 1,
                                    .norm = norm,
                                    .pixels = expected};
        prepare(&args);
        if (memcmp(expected, got + i * N_PIXELS, sizeof expected) != 0) return false;
        if (got_labels[i] != labels[slice.index[i]]) return false;
    }
    return true;
}

/* Uses a batch as a step does: reads it in the backend's memory after the next fetch has started. */
static bool same_batch(const prefetcher_batch_t *batch, const transform_settings_t *transform,
                       sampler_slice_t slice, bool ahead)
{
    const backend_t *backend = prefetcher.backend;
    float got[BATCH * N_PIXELS];
    int32_t got_labels[BATCH];
    if (batch->n != slice.n || batch->n_global != slice.n_global || batch->first != slice.first) return false;
    if (!backend->memory) {
        must(prefetcher_ahead(&prefetcher), "prefetcher_ahead");
        return same_samples(transform, slice, batch->pixels, batch->fields[0]);
    }
    must(backend->memory->download(got, batch->pixels, (size_t)slice.n * sizeof got[0] * N_PIXELS), "pixels");
    must(backend->memory->download(got_labels, batch->fields[0], (size_t)slice.n * sizeof got_labels[0]),
         "labels");
    if (ahead) must(prefetcher_ahead(&prefetcher), "prefetcher_ahead");
    must(backend_sync(backend), "waiting");
    return same_samples(transform, slice, got, got_labels);
}

/* Three epochs from the middle of the first, as one rank of `size`. ahead: each batch is fetched during the
 * one before. */
static bool delivers(const backend_t *backend, const transform_settings_t *transform, int rank, int size,
                     bool ahead)
{
    sampler_t *sampler = make_sampler(), *same = make_sampler();
    const loader_options_t options = {.dataset = &dataset,
                                      .sampler = sampler,
                                      .rank = rank,
                                      .size = size,
                                      .batch = 1,
                                      .n_batches = N_BATCHES - 1,
                                      .max_local = BATCH,
                                      .timeout_sec = 60,
                                      .norm = norm,
                                      .seed = SEED,
                                      .transform = transform};
    must(prefetcher_open(&options, backend, &prefetcher), "prefetcher_open");
    bool right = true;
    prefetcher_batch_t batch;
    int64_t n_blocks = mem_count();
    for (int64_t i = 1; right && i < N_BATCHES; i++) {
        must(prefetcher_next(&prefetcher, &batch), "prefetcher_next");
        sampler_slice_t slice = sampler_at(same, i / N_PER_EPOCH, i % N_PER_EPOCH, rank, size);
        right = same_batch(&batch, transform, slice, ahead);
        if (!right) printf("# batch %d is not what it should be\n", (int)i);
    }
    right = right && prefetcher_ahead(&prefetcher) == ERR_OK && !prefetcher.ahead && mem_count() == n_blocks;
    prefetcher_close(&prefetcher);
    sampler_free(&sampler);
    sampler_free(&same);
    return right;
}

static void test_feed(const backend_t *backend)
{
    const char *name = backend->name;
    OK(delivers(backend, NULL, 0, 1, true), "%s: every batch, the next one fetched meanwhile", name);
    OK(delivers(backend, &turning, 0, 1, true), "%s: with augmentation", name);
    OK(delivers(backend, &turning, 0, 1, false), "%s: each fetched when it is wanted", name);
    OK(delivers(backend, NULL, 1, 2, true) && delivers(backend, &turning, 6, 7, true),
       "%s: on one of several ranks, of which some get nothing", name);
}

/* Abandoned with a batch on its way; and one that never had any. */
static void test_close(const backend_t *backend)
{
    sampler_t *sampler = make_sampler();
    prefetcher_batch_t batch;
    loader_options_t options = {.dataset = &dataset,
                                .sampler = sampler,
                                .size = 1,
                                .n_batches = N_BATCHES,
                                .max_local = BATCH,
                                .timeout_sec = 60,
                                .norm = norm};
    int64_t n_live = mem_live();
    prefetcher = (prefetcher_t){0};
    prefetcher_close(&prefetcher);
    must(prefetcher_open(&options, backend, &prefetcher), "prefetcher_open");
    must(prefetcher_next(&prefetcher, &batch), "prefetcher_next");
    must(prefetcher_ahead(&prefetcher), "prefetcher_ahead");
    must(prefetcher_ahead(&prefetcher), "prefetcher_ahead");
    must(backend_sync(backend), "waiting");
    OK(prefetcher.n_fetched == (backend->memory ? 2 : 0), "%s: one batch is fetched ahead, not more",
       backend->name);
    prefetcher_close(&prefetcher);
    options.n_batches = 0;
    bool opened =
        prefetcher_open(&options, backend, &prefetcher) == ERR_OK && prefetcher_ahead(&prefetcher) == ERR_OK;
    prefetcher_close(&prefetcher);
    OK(opened && mem_live() == n_live, "%s: closed with a batch on its way, and without any", backend->name);
    sampler_free(&sampler);
}

/* The batch before the last, while the next one is being fetched. */
static void test_restore(const backend_t *backend)
{
    sampler_t *sampler = make_sampler(), *same = make_sampler();
    const loader_options_t options = {.dataset = &dataset,
                                      .sampler = sampler,
                                      .size = 1,
                                      .n_batches = N_BATCHES,
                                      .max_local = BATCH,
                                      .timeout_sec = 60,
                                      .norm = norm,
                                      .seed = SEED,
                                      .transform = &turning};
    prefetcher_batch_t batch;
    must(prefetcher_open(&options, backend, &prefetcher), "prefetcher_open");
    for (int i = 0; i < N_PER_EPOCH; i++) {
        must(prefetcher_next(&prefetcher, &batch), "prefetcher_next");
        must(prefetcher_ahead(&prefetcher), "prefetcher_ahead");
        if (i > 0) must(backend_sync(backend), "waiting");
    }
    must(prefetcher_restore(&prefetcher, &batch), "prefetcher_restore");
    sampler_slice_t slice = sampler_at(same, 0, N_PER_EPOCH - 2, 0, 1);
    OK(same_batch(&batch, &turning, slice, false), "%s: the batch before the last, again", backend->name);
    prefetcher_close(&prefetcher);
    sampler_free(&sampler);
    sampler_free(&same);
}

int main(int argc, char **argv)
{
    const backend_t *backend = NULL;
    char why[BACKEND_WHY_MAX];
    if (argc > 1 && backend_find(argv[1], &backend, why) != ERR_OK) tap_skip_all(err_message());
    backend = util_open(argc, argv, 1);
    for (int i = 0; i < N; i++) labels[i] = (uint8_t)(i % 10);
    for (size_t i = 0; i < sizeof pixels; i++) pixels[i] = (uint8_t)(i * 41);
    dataset.pixels[SPLIT_TRAIN] = pixels;
    dataset.labels[SPLIT_TRAIN] = labels;
    dataset.info.n_samples[SPLIT_TRAIN] = N;
    tap_plan(15 + (backend->memory != NULL));
    test_feed(backend);
    test_close(backend);
    test_feed(&late_device);
    OK(!late.overtaken, "late: a batch is copied before the loader is asked for the next one");
    test_close(&late_device);
    test_restore(&late_device);
    if (backend->memory) test_restore(backend);
    if (backend->close) backend->close();
    OK(mem_live() == 0, "every block was freed");
    return tap_done();
}
