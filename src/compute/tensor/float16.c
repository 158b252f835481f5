/* SPDX-License-Identifier: MIT */
/* Conversion of arrays between float32 and bfloat16, vectorized for the CPU at run time and spread over
 * threads. */
#include "compute/tensor/float16.h"

#include "base/isa.h"

enum { PIECE = 1 << 13, FORK_MIN = 1 << 15 };

WIDE_CLONES(narrow_piece, (uint16_t *restrict to, const float *restrict from, int64_t n), (to, from, n))
{
    for (int64_t i = 0; i < n; i++) to[i] = bf16_from_float(from[i]);
}

WIDE_CLONES(widen_piece, (float *restrict to, const uint16_t *restrict from, int64_t n), (to, from, n))
{
    for (int64_t i = 0; i < n; i++) to[i] = bf16_to_float(from[i]);
}

void bf16_narrow(uint16_t *to, const float *from, int64_t n)
{
#pragma omp parallel for schedule(static) if (n > FORK_MIN)
    for (int64_t i = 0; i < n; i += PIECE) narrow_piece(to + i, from + i, n - i < PIECE ? n - i : PIECE);
}

void bf16_widen(float *to, const uint16_t *from, int64_t n)
{
#pragma omp parallel for schedule(static) if (n > FORK_MIN)
    for (int64_t i = 0; i < n; i += PIECE) widen_piece(to + i, from + i, n - i < PIECE ? n - i : PIECE);
}
