/* What operators that multiply matrices share. */
#ifndef KERNELS_CPU_MATRIX_H
#define KERNELS_CPU_MATRIX_H

#include <stdint.h>

/* y = bias in every row of [n_rows, n_out], so that a product is added to it. */
void matrix_spread_rows(float *y, const float *bias, int64_t n_rows, int64_t n_out);

/* sum[i] = Σ over the rows of dy [n_rows, n_out], from the top down whatever the number of threads. */
void matrix_sum_columns(float *sum, const float *dy, int64_t n_rows, int64_t n_out);

#endif
