/* SPDX-License-Identifier: MIT */
/* Rounds operands to bfloat16 values held in float32, for CPUs without bfloat16 instructions. Which operators
 * need that is left to them. */
#include "kernels/cpu/bf16.h"

#include "base/mem.h"
#include "compute/tensor/float16.h"
#include "kernels/cpu/loop.h"

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
