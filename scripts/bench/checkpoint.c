/* SPDX-License-Identifier: MIT */
/* Measures checkpoint writing against a plain write of the same bytes, and the digest; prints a Markdown
 * table. Run by scripts/bench/checkpoint.sh: checkpoint FOLDER MEGABYTES PAIRS. */
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fs.h"
#include "base/mem.h"
#include "base/rng.h"
#include "base/stats.h"
#include "store/checkpoint/async.h"
#include "store/checkpoint/store.h"
#include "store/h5/seal.h"

#define WORK_SEC 0.1
enum { MAX_ARRAYS = 400, MAX_PAIRS = 1000, N_DIGESTS = 15 };

typedef struct bench {
    char path[FS_PATH_MAX], plain[FS_PATH_MAX], folder[FS_PATH_MAX];
    float *state;
    char *image; /* the checkpoint's bytes: what the plain write writes */
    int64_t n_image, n_bytes;
    int n_pairs;
    ckpt_array_t arrays[MAX_ARRAYS];
    char names[MAX_ARRAYS][64];
    double checkpoint_sec[MAX_PAIRS], plain_sec[MAX_PAIRS], ratio[MAX_PAIRS];
} bench_t;

static ckpt_content_t cut(bench_t *b, int n_arrays)
{
    int64_t n = b->n_bytes / (int64_t)sizeof(float) / n_arrays;
    for (int i = 0; i < n_arrays; i++) {
        snprintf(b->names[i], sizeof b->names[i], "/params/layer%d/%s", i / 2, i % 2 ? "bias" : "weight");
        b->arrays[i] = (ckpt_array_t){b->names[i], DTYPE_F32, shape_2d(1, n), b->state + i * n, "OI"};
    }
    return (ckpt_content_t){b->arrays, n_arrays, NULL, 0};
}

/* Flushes and frees beforehand, so that no measurement includes it. */
static err_t settle(bench_t *b)
{
    unlink(b->path);
    unlink(b->plain);
    int fd = open(b->folder, O_RDONLY | O_DIRECTORY);
    if (fd < 0 || syncfs(fd) != 0) RAISE(ERR_SYSTEM, "%s: %s", b->folder, strerror(errno));
    close(fd);
    return ERR_OK;
}

static err_t time_checkpoint(bench_t *b, const ckpt_content_t *content, double *sec)
{
    TRY(settle(b));
    double start = clock_sec();
    TRY(checkpoint_write(b->path, content));
    *sec = clock_sec() - start;
    return ERR_OK;
}

static err_t time_plain(bench_t *b, double *sec)
{
    TRY(settle(b));
    double start = clock_sec();
    int fd = open(b->plain, O_WRONLY | O_CREAT | O_EXCL, 0666);
    if (fd < 0) RAISE(ERR_SYSTEM, "%s: %s", b->plain, strerror(errno));
    for (int64_t done = 0; done < b->n_image;) {
        ssize_t n = write(fd, b->image + done, (size_t)(b->n_image - done));
        if (n <= 0) RAISE(ERR_SYSTEM, "%s: %s", b->plain, strerror(errno));
        done += n;
    }
    if (fsync(fd) != 0 || close(fd) != 0) RAISE(ERR_SYSTEM, "%s: %s", b->plain, strerror(errno));
    *sec = clock_sec() - start;
    return ERR_OK;
}

static err_t read_image(bench_t *b)
{
    struct stat info;
    FILE *file = fopen(b->path, "rb");
    if (!file || fstat(fileno(file), &info) != 0) RAISE(ERR_SYSTEM, "%s: %s", b->path, strerror(errno));
    b->n_image = info.st_size;
    TRY(mem_new((size_t)info.st_size, "the plain bytes", &b->image));
    if (fread(b->image, 1, (size_t)b->n_image, file) != (size_t)b->n_image)
        RAISE(ERR_SYSTEM, "%s: it cannot be read", b->path);
    fclose(file);
    return ERR_OK;
}

/* Pairs in the order A B B A, so that a drift of the device meets both alike. */
static err_t compare(bench_t *b, int n_arrays)
{
    double warm;
    ckpt_content_t content = cut(b, n_arrays);
    TRY(time_checkpoint(b, &content, &warm));
    TRY(read_image(b));
    TRY(time_plain(b, &warm));
    for (int i = 0; i < b->n_pairs; i++) {
        if (i % 2 == 0) TRY(time_plain(b, &b->plain_sec[i]));
        TRY(time_checkpoint(b, &content, &b->checkpoint_sec[i]));
        if (i % 2 == 1) TRY(time_plain(b, &b->plain_sec[i]));
        b->ratio[i] = b->plain_sec[i] / b->checkpoint_sec[i];
    }
    stats_sort(b->ratio, b->n_pairs);
    double plain = stats_median(b->plain_sec, b->n_pairs), own = stats_median(b->checkpoint_sec, b->n_pairs);
    printf("| write + fsync, %d arrays | %.1f MB | %.3f s (%.0f MB/s) | %.3f s (%.0f MB/s) | **%.2f** | %.2f "
           "to %.2f | "
           "≥ %.2f |\n",
           n_arrays, (double)b->n_image / 1e6, own, (double)b->n_image / own / 1e6, plain,
           (double)b->n_image / plain / 1e6, stats_median(b->ratio, b->n_pairs),
           stats_quantile(b->ratio, b->n_pairs, 0.25), stats_quantile(b->ratio, b->n_pairs, 0.75),
           n_arrays < 100 ? 0.85 : 0.7);
    fflush(stdout);
    mem_free(&b->image);
    return settle(b);
}

static err_t time_digest(bench_t *b)
{
    double rate[N_DIGESTS], sec;
    seal_t seal;
    ckpt_content_t content = cut(b, 4);
    TRY(time_checkpoint(b, &content, &sec));
    for (int i = 0; i < N_DIGESTS; i++) {
        int fd = open(b->path, O_RDONLY);
        if (fd < 0) RAISE(ERR_SYSTEM, "%s: %s", b->path, strerror(errno));
        double start = clock_sec();
        TRY(seal_verify(&(seal_file_t){fd, b->path, "checkpoint"}, &seal));
        rate[i] = (double)b->n_bytes / (clock_sec() - start) / 1e9;
        close(fd);
    }
    double median = stats_median(rate, N_DIGESTS);
    printf("| digest, in the page cache | %.1f MB | %.1f GB/s | | | %.1f to %.1f GB/s | ≥ 5 GB/s |\n",
           (double)b->n_bytes / 1e6, median, stats_quantile(rate, N_DIGESTS, 0.25),
           stats_quantile(rate, N_DIGESTS, 0.75));
    return settle(b);
}

/* The forward and backward pass between a checkpoint and the next change of a weight: arithmetic in registers
 * for WORK_SEC, less than a step with this many parameters takes (two flops a parameter and sample). */
static void work(void)
{
    volatile double sink = 1;
    double end = clock_sec() + WORK_SEC;
    while (clock_sec() < end)
        for (int i = 0; i < 1000; i++) sink = sink * 0.999 + 1;
}

/* The time that training waits. In the background: for the copy, if it is not done before the optimizer changes
 * the weights. Otherwise: until the file is on the device. */
static err_t time_stall(bench_t *b, ckpt_async_t *async, const ckpt_content_t *content, bool wait,
                        double *sec)
{
    ckpt_result_t result;
    char path[FS_PATH_MAX];
    TRY(checkpoint_store_path(b->folder, 1, path));
    unlink(path);
    TRY(settle(b));
    double start = clock_sec();
    TRY(ckpt_async_submit(async, b->folder, 1, (ckpt_keep_t){.n = 1, .best = -1}, content,
                          content->n_arrays));
    if (wait) TRY(ckpt_async_wait(async));
    *sec = clock_sec() - start;
    if (!wait) {
        work();
        start = clock_sec();
        ckpt_async_copied(async);
        *sec += clock_sec() - start;
    }
    TRY(ckpt_async_wait(async));
    if (!ckpt_async_take(async, &result)) RAISE(ERR_SYSTEM, "the background writer has no result");
    unlink(path);
    return err_put(&result.error);
}

static err_t compare_stalls(bench_t *b, ckpt_async_t *async)
{
    ckpt_content_t content = cut(b, 4);
    double warm;
    TRY(time_stall(b, async, &content, true, &warm));
    for (int i = 0; i < b->n_pairs; i++) {
        if (i % 2 == 0) TRY(time_stall(b, async, &content, true, &b->plain_sec[i]));
        TRY(time_stall(b, async, &content, false, &b->checkpoint_sec[i]));
        if (i % 2 == 1) TRY(time_stall(b, async, &content, true, &b->plain_sec[i]));
        b->ratio[i] = b->checkpoint_sec[i] / b->plain_sec[i];
    }
    stats_sort(b->ratio, b->n_pairs);
    printf("| stall: background against waiting | %.1f MB | %.6f s | %.3f s | **%.4f** | %.4f to %.4f | ≤ "
           "0.10 |\n",
           (double)b->n_bytes / 1e6, stats_median(b->checkpoint_sec, b->n_pairs),
           stats_median(b->plain_sec, b->n_pairs), stats_median(b->ratio, b->n_pairs),
           stats_quantile(b->ratio, b->n_pairs, 0.25), stats_quantile(b->ratio, b->n_pairs, 0.75));
    return ERR_OK;
}

static err_t time_stalls(bench_t *b)
{
    ckpt_async_t *async;
    TRY(ckpt_async_open(b->n_bytes, 300, NULL, &async));
    err_t err = compare_stalls(b, async);
    ckpt_async_close(&async);
    return err;
}

static err_t run(bench_t *b, const char *folder)
{
    TRY(fs_join(b->path, folder, "bench.h5"));
    TRY(fs_join(b->plain, folder, "bench.plain"));
    snprintf(b->folder, sizeof b->folder, "%s", folder);
    TRY(mem_new((size_t)b->n_bytes, "the state", &b->state));
    for (int64_t i = 0; i < b->n_bytes / (int64_t)sizeof(float); i++)
        b->state[i] = (float)(i * 2654435761u % 16777213) * 1e-6f;
    printf("| case | size | dptrain | plain | ratio | middle half | bar |\n|---|---|---|---|---|---|---|\n");
    TRY(compare(b, 4));
    TRY(compare(b, 400));
    TRY(time_digest(b));
    return time_stalls(b);
}

int main(int argc, char **argv)
{
    bench_t *b = NULL;
    if (argc != 4 || atoi(argv[2]) < 1 || atoi(argv[3]) < 1 || atoi(argv[3]) > MAX_PAIRS) {
        fprintf(stderr, "usage: checkpoint FOLDER MEGABYTES PAIRS\n");
        return ERR_USAGE;
    }
    err_t err = mem_new(sizeof *b, "the benchmark", &b);
    if (err == ERR_OK) {
        b->n_bytes = (int64_t)atoi(argv[2]) * 1000 * 1000 / 1600 * 1600;
        b->n_pairs = atoi(argv[3]);
        err = run(b, argv[1]);
    }
    if (err != ERR_OK) fprintf(stderr, "checkpoint: error: %s\n", err_message());
    if (b) {
        mem_free(&b->state);
        mem_free(&b->image);
    }
    mem_free(&b);
    return (int)err;
}
