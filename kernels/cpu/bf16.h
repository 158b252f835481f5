/* bfloat16 products without instructions for them: operands are rounded in float, so that every float32
 * algorithm gives the products of their bfloat16 values. */
#ifndef KERNELS_CPU_BF16_H
#define KERNELS_CPU_BF16_H

#include <stdint.h>

/* bf16_round of n values; `to` may be `from`. */
void bf16_round_array(float *to, const float *from, int64_t n);

#endif
