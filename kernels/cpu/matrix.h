/* SPDX-License-Identifier: MIT */
/* Helpers of the operators that multiply matrices. */
#ifndef KERNELS_CPU_MATRIX_H
#define KERNELS_CPU_MATRIX_H

#include <stdbool.h>
#include <stdint.h>

/* y = bias in every row of [n_rows, n_out], ready to accumulate a product. */
void matrix_spread_rows(float *y, const float *bias, int64_t n_rows, int64_t n_out);

/* sum[i] = Σ over the rows of dy [n_rows, n_out], always from the top down; with `add`, sum[i] begins the sum. */
void matrix_sum_columns(float *sum, const float *dy, int64_t n_rows, int64_t n_out, bool add);

#endif
