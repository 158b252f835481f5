/* SPDX-License-Identifier: MIT */
/* Products of whole numbers, and whether they are right. Not collective. */
#ifndef TOOLS_BENCH_GEMM_CHECK_H
#define TOOLS_BENCH_GEMM_CHECK_H

#include <stdint.h>

#include "base/err.h"

/* Whole numbers in [-half, half], half ≤ 127, the same for a seed: bfloat16 holds them, and float32 every sum
 * of k products of two of them while k·half² < 2^24. */
void gemm_fill(float *out, int64_t count, int half, uint64_t seed);

/* x [m, k], w [n, k], y [m, n]: how many rows and columns of y are not those of x·wᵀ, all three of whole
 * numbers, |y| ≤ 2^24. Exact in integers and not by multiplying again: rows of y times a random vector v
 * against x·(wᵀv), and columns alike (Freivalds, "Probabilistic machines can use less running time", 1977).
 * One wrong element in a row is seen for certain, as no v is 0; several cancel out with a chance of 2^-20,
 * and then would have to do so in their columns, too. */
err_t gemm_check(const float *x, const float *w, const float *y, int64_t m, int64_t n, int64_t k,
                 int64_t *n_wrong);

#endif
