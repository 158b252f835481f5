/* SPDX-License-Identifier: MIT */
/* Helpers of the operators that multiply matrices. */
#ifndef KERNELS_CPU_MATRIX_H
#define KERNELS_CPU_MATRIX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "compute/tensor/tensor.h"

/* y = bias in every row of [n_rows, n_out], ready to accumulate a product. */
void matrix_spread_rows(float *y, const float *bias, int64_t n_rows, int64_t n_out);

/* sum[i] = Σ over the rows of dy [n_rows, n_out], always from the top down; with `add`, sum[i] begins the sum. */
void matrix_sum_columns(float *sum, const float *dy, int64_t n_rows, int64_t n_out, bool add);

/* bfloat16 products without bfloat16 instructions: operands are rounded but kept in float32, so any float32
 * algorithm computes the products of their bfloat16 values. */

/* bf16_round of n values; `to` may be `from`. */
void bf16_round_array(float *to, const float *from, int64_t n);

/* An operand as float32 in the workspace, rounded if it is float32 and widened if it is bfloat16.
 *
 *   offset  bytes from the start of `workspace`; the copy needs bf16_operand_bytes */
size_t bf16_operand_bytes(shape_t shape);
const float *bf16_operand(const void *from, dtype_t dtype, shape_t shape, void *workspace, size_t offset);

#endif
