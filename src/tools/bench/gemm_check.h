/* SPDX-License-Identifier: MIT */
/* Generates and verifies products of integer matrices. Not collective. */
#ifndef TOOLS_BENCH_GEMM_CHECK_H
#define TOOLS_BENCH_GEMM_CHECK_H

#include <stdint.h>

#include "base/err.h"

/* Fills `out` with integers in [-half, half], half ≤ 127, determined by the seed. bfloat16 holds them
 * exactly, and float32 holds any sum of k products of two of them while k·half² < 2^24. */
void gemm_fill(float *out, int64_t count, int half, uint64_t seed);

/* Verifies y = x·wᵀ for integer matrices, |y| ≤ 2^24, exactly and in O(mn + mk + nk): compares y·v with
 * x·(wᵀv) for a random vector v, and columns likewise (Freivalds, "Probabilistic machines can use less
 * running time", 1977). A single wrong element in a row is always detected, because v has no zeros. Several
 * cancel out with probability 2^-20, and would have to do so in their columns, too.
 *
 *   x, w, y  [m, k], [n, k], [m, n]
 *   n_wrong  number of wrong rows and columns */
err_t gemm_check(const float *x, const float *w, const float *y, int64_t m, int64_t n, int64_t k,
                 int64_t *n_wrong);

#endif
