/* SPDX-License-Identifier: MIT */
/* bfloat16: the upper half of a float32, 8 bits of precision with the range of float32. Rounds to nearest,
 * ties to even; values beyond the largest become infinite, denormals are preserved, NaN stays NaN (quiet).
 * Branch-free, so that loops vectorize. */
#ifndef COMPUTE_TENSOR_BF16_H
#define COMPUTE_TENSOR_BF16_H

#include <stdint.h>
#include <string.h>

static inline uint16_t bf16_from_float(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    uint32_t nearest = bits + 0x7fffu + (bits >> 16 & 1);
    return (uint16_t)((x != x ? bits | 0x00400000u : nearest) >> 16);
}

static inline float bf16_to_float(uint16_t bits)
{
    uint32_t whole = (uint32_t)bits << 16;
    float x;
    memcpy(&x, &whole, sizeof x);
    return x;
}

/* The nearest bfloat16 as a float. */
static inline float bf16_round(float x)
{
    return bf16_to_float(bf16_from_float(x));
}

/* Convert n values; not in place. */
void bf16_narrow(uint16_t *to, const float *from, int64_t n);
void bf16_widen(float *to, const uint16_t *from, int64_t n);

#endif
