/* SPDX-License-Identifier: MIT */
/* Bias rows and column sums around matrix products, in an order that does not depend on the number of
 * threads; operands rounded to bfloat16 values held in float32, for CPUs without bfloat16 instructions. The products
 * themselves are oneDNN's. */
#include "kernels/cpu/matrix.h"

#include <string.h>

#include "base/mem.h"
#include "compute/tensor/float16.h"
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

LOOP_CLONES(round_block, (float *to, const float *from, int64_t n), (to, from, n))
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++) to[i] = bf16_round(from[i]);
}

void bf16_round_array(float *to, const float *from, int64_t n)
{
#pragma omp parallel for schedule(static) if (n > LOOP_FORK_MIN)
    for (int64_t i = 0; i < n; i += LOOP_BLOCK) round_block(to + i, from + i, loop_count(i, n, LOOP_BLOCK));
}

size_t bf16_operand_bytes(shape_t shape)
{
    return mem_round((size_t)shape_count(shape) * sizeof(float));
}

const float *bf16_operand(const void *from, dtype_t dtype, shape_t shape, void *workspace, size_t offset)
{
    float *to = (float *)((char *)workspace + offset);
    if (dtype == DTYPE_BF16)
        bf16_widen(to, from, shape_count(shape));
    else
        bf16_round_array(to, from, shape_count(shape));
    return to;
}
