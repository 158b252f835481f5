/* How work is cut so that it fits: plain arithmetic, without a device. */
#ifndef KERNELS_CUDA_CHUNK_H
#define KERNELS_CUDA_CHUNK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

/* The product of factors ≥ 0; INT64_MAX where that is beyond it. */
int64_t chunk_product(const int64_t *factors, int n_factors);

/* Samples that are taken one after another because their scratch is bounded. */
typedef struct chunk_need {
    const char *what; /* for the message: "conv2d …, forward, by im2col" */
    int64_t n_samples;
    int64_t n_sample_bytes; /* scratch of one */
    int64_t
        n_sample_cells; /* the most elements that one kernel counts for one; a chunk has at most INT32_MAX */
    int64_t n_fixed_bytes; /* scratch besides */
    int64_t n_limit_bytes; /* --workspace */
} chunk_need_t;

typedef struct chunk {
    int64_t n_samples; /* in each but the last */
    int64_t n_chunks;
    int64_t n_last; /* in the last: 1 … n_samples */
} chunk_t;

bool chunk_fits(const chunk_need_t *need);

/* As few chunks as fit, as equal as they can be. ERR_USAGE naming --workspace when not even one sample does.
 */
err_t chunk_plan(const chunk_need_t *need, chunk_t *out);

/* Parts that a sum over n_rows of n_columns is taken in so that the GPU has enough to do: 1 where a block
 * sums a column fast enough by itself. */
int chunk_parts(int64_t n_rows, int64_t n_columns);

/* The same for a product whose result takes n_tiles tiles, over a depth, when n_part_bytes are kept of each
 * part and may take n_limit_bytes in all. */
int chunk_splits(int64_t n_tiles, int64_t depth, int64_t n_part_bytes, int64_t n_limit_bytes);

#endif
