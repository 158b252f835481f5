/* SPDX-License-Identifier: MIT */
/* Cuts batches into chunks that fit --workspace and 32-bit counters, and sums into parts that keep a GPU
 * busy. Pure arithmetic, tested without a device. */
#include "kernels/cuda/chunk.h"

#include <inttypes.h>

int64_t chunk_product(const int64_t *factors, int n_factors)
{
    int64_t product = 1;
    bool beyond = false;
    for (int i = 0; i < n_factors; i++) {
        if (factors[i] == 0) return 0;
        beyond = __builtin_mul_overflow(product, factors[i], &product) || beyond;
        if (beyond) product = INT64_MAX;
    }
    return product;
}

/* The most samples one chunk can have. */
static int64_t room(const chunk_need_t *need)
{
    int64_t n = need->n_samples;
    if (need->n_fixed_bytes > need->n_limit_bytes) return 0;
    if (need->n_sample_bytes > 0 && (need->n_limit_bytes - need->n_fixed_bytes) / need->n_sample_bytes < n)
        n = (need->n_limit_bytes - need->n_fixed_bytes) / need->n_sample_bytes;
    if (need->n_sample_cells > 0 && INT32_MAX / need->n_sample_cells < n)
        n = INT32_MAX / need->n_sample_cells;
    return n;
}

bool chunk_fits(const chunk_need_t *need)
{
    return room(need) > 0;
}

err_t chunk_plan(const chunk_need_t *need, chunk_t *out)
{
    int64_t most = room(need), wanted;
    if (most == 0 && need->n_sample_cells > INT32_MAX)
        RAISE(ERR_USAGE, "%s: a single sample has %" PRId64 " values, more than a kernel supports",
              need->what, need->n_sample_cells);
    if (most == 0) {
        if (__builtin_add_overflow(need->n_fixed_bytes, need->n_sample_bytes, &wanted)) wanted = INT64_MAX;
        RAISE(ERR_USAGE, "%s: a single sample needs %.1f MiB of scratch; raise --workspace (%.1f MiB)",
              need->what, (double)wanted / (1 << 20), (double)need->n_limit_bytes / (1 << 20));
    }
    out->n_chunks = (need->n_samples - 1) / most + 1;
    out->n_samples = (need->n_samples - 1) / out->n_chunks + 1;
    out->n_chunks = (need->n_samples - 1) / out->n_samples + 1;
    out->n_last = need->n_samples - (out->n_chunks - 1) * out->n_samples;
    return ERR_OK;
}

/* Blocks of 256 threads that fill the largest current GPUs. */
enum { FULL = 1024 };

int chunk_parts(int64_t n_rows, int64_t n_columns)
{
    enum { ALONE = 256, EACH = 64, COLUMNS = 32 };
    if (n_rows <= ALONE) return 1;
    int64_t most = FULL / ((n_columns - 1) / COLUMNS + 1), parts = (n_rows - 1) / EACH + 1;
    if (parts > most) parts = most;
    return parts < 1 ? 1 : (int)parts;
}

int chunk_splits(int64_t n_tiles, int64_t depth, int64_t n_part_bytes, int64_t n_limit_bytes)
{
    /* Two per multiprocessor; the least depth that is worth a part. */
    enum { BLOCKS = 2 * CHUNK_MULTIPROCESSORS, EACH = 128 };
    int64_t parts = n_tiles >= BLOCKS ? 1 : BLOCKS / n_tiles;
    if (parts > (depth - 1) / EACH + 1) parts = (depth - 1) / EACH + 1;
    if (parts > 1 && parts > n_limit_bytes / n_part_bytes) parts = n_limit_bytes / n_part_bytes;
    return parts < 1 ? 1 : (int)parts;
}
