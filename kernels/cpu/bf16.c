#include "kernels/cpu/bf16.h"

#include "kernels/cpu/loop.h"
#include "tensor/bf16.h"

LOOP_CLONES static void round_block(float *to, const float *from, int64_t n)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++) to[i] = bf16_round(from[i]);
}

void bf16_round_array(float *to, const float *from, int64_t n)
{
#pragma omp parallel for schedule(static) if (n > LOOP_FORK_MIN)
    for (int64_t i = 0; i < n; i += LOOP_BLOCK) round_block(to + i, from + i, loop_count(i, n, LOOP_BLOCK));
}
