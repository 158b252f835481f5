/* bfloat16 products without instructions for them: operands are rounded in float, so that every float32
 * algorithm gives the products of their bfloat16 values. */
#ifndef KERNELS_CPU_BF16_H
#define KERNELS_CPU_BF16_H

#include <stddef.h>
#include <stdint.h>

#include "compute/tensor/dtype.h"
#include "compute/tensor/shape.h"

/* bf16_round of n values; `to` may be `from`. */
void bf16_round_array(float *to, const float *from, int64_t n);

/* An operand, rounded if it is float32, in a workspace from byte `offset` on, where it takes so many bytes. */
size_t bf16_operand_bytes(shape_t shape);
const float *bf16_operand(const void *from, dtype_t dtype, shape_t shape, void *workspace, size_t offset);

#endif
