/* SPDX-License-Identifier: MIT */
/* Bias rows and column sums around matrix products, in an order that does not depend on the number of
 * threads. The products themselves are oneDNN's. */
#include "kernels/cpu/matrix.h"

#include <string.h>

#include "kernels/cpu/loop.h"

void matrix_spread_rows(float *y, const float *bias, int64_t n_rows, int64_t n_out)
{
    for (int64_t row = 0; row < n_rows; row++) memcpy(y + row * n_out, bias, (size_t)n_out * sizeof(float));
}

/* Sums of `width` columns of [n_rows, n_out], from the top down. */
LOOP_CLONES(sum_columns,
            (float *restrict sum, const float *restrict dy, int64_t n_rows, int64_t n_out, int64_t width,
             bool add),
            (sum, dy, n_rows, n_out, width, add))
{
    for (int64_t i = 0; i < width && !add; i++) sum[i] = 0;
    for (int64_t row = 0; row < n_rows; row++)
        for (int64_t i = 0; i < width; i++) sum[i] += dy[row * n_out + i];
}

enum { COLUMN_BLOCK = 256 };

void matrix_sum_columns(float *sum, const float *dy, int64_t n_rows, int64_t n_out, bool add)
{
#pragma omp parallel for schedule(static) if (n_rows * n_out > LOOP_FORK_MIN && n_out > COLUMN_BLOCK)
    for (int64_t i = 0; i < n_out; i += COLUMN_BLOCK)
        sum_columns(sum + i, dy + i, n_rows, n_out, loop_count(i, n_out, COLUMN_BLOCK), add);
}
