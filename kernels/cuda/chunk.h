/* SPDX-License-Identifier: MIT */
/* Cuts work into chunks and parts: plain arithmetic, without a device. */
#ifndef KERNELS_CUDA_CHUNK_H
#define KERNELS_CUDA_CHUNK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#include "base/err.h"

/* Of an H200. Rules on shapes assume it on every GPU, so that all compute the same bits. */
enum { CHUNK_MULTIPROCESSORS = 132 };

/* The product of factors ≥ 0, saturated at INT64_MAX. */
int64_t chunk_product(const int64_t *factors, int n_factors);

/* Describes samples that must be processed in chunks because their scratch is bounded. */
typedef struct chunk_need {
    const char *what; /* for messages: "conv2d …, forward, by im2col" */
    int64_t n_samples;
    int64_t n_sample_bytes; /* scratch per sample */
    int64_t n_sample_cells; /* most elements a kernel counts per sample; a chunk has at most INT32_MAX */
    int64_t n_fixed_bytes;  /* scratch independent of the samples */
    int64_t n_limit_bytes;  /* --workspace */
} chunk_need_t;

typedef struct chunk {
    int64_t n_samples; /* in all chunks but the last */
    int64_t n_chunks;
    int64_t n_last; /* in the last chunk: 1 … n_samples */
} chunk_t;

bool chunk_fits(const chunk_need_t *need);

/* As few chunks as fit, of nearly equal size. ERR_USAGE naming --workspace if not even one sample fits. */
err_t chunk_plan(const chunk_need_t *need, chunk_t *out);

/* Tiles of bm × bn elements that cover m × n. */
static inline int64_t chunk_tiles(int64_t m, int bm, int64_t n, int bn)
{
    return ((m + bm - 1) / bm) * ((n + bn - 1) / bn);
}

/* Number of parts to split a sum over n_rows of n_columns into, so that the GPU is busy; 1 if a block sums a
 * column fast enough. */
int chunk_parts(int64_t n_rows, int64_t n_columns);

/* The same for a product over a depth whose result has n_tiles tiles. Each part stores n_part_bytes, all of
 * them at most n_limit_bytes. */
int chunk_splits(int64_t n_tiles, int64_t depth, int64_t n_part_bytes, int64_t n_limit_bytes);

#ifdef __cplusplus
}
#endif

#endif
