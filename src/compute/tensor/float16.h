/* SPDX-License-Identifier: MIT */
/* Floats of 16 bits: bfloat16, with which training computes, and half, of imported weights and in benchmarks of
 * collectives. Conversions from float32 round to nearest, ties to even; values beyond the largest become infinite, NaN
 * stays NaN (quiet). They are branch-free, so that loops vectorize. */
#ifndef COMPUTE_TENSOR_FLOAT16_H
#define COMPUTE_TENSOR_FLOAT16_H

#include <stdint.h>
#include <string.h>

/* bfloat16: the upper half of a float32, 8 bits of precision with the range of float32. Denormals are preserved. */
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

/* half: IEEE 754 binary16, 5 exponent bits, 11 bits of precision. half_from_exact is undefined unless x is 0 or a normal
 * half. */
static inline uint16_t half_from_exact(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    uint32_t rest = bits & 0x7fffffffu;
    return (uint16_t)((bits >> 16 & 0x8000u) | (rest ? (rest >> 13) - ((127u - 15u) << 10) : 0));
}

static inline float half_to_float(uint16_t bits)
{
    const uint32_t rest = bits & 0x7fffu, sign = (uint32_t)(bits & 0x8000u) << 16;
    /* A denormal is its fraction times 2^-24. */
    const float small = (float)rest * 0x1p-24F;
    uint32_t wide = (rest << 13) + ((rest >= 0x7c00u ? 255u - 31u : 127u - 15u) << 23), tiny;
    float x;
    memcpy(&tiny, &small, sizeof tiny);
    wide = (rest < 0x400u ? tiny : wide) | sign;
    memcpy(&x, &wide, sizeof x);
    return x;
}

static inline uint16_t half_from_float(float x)
{
    uint32_t bits, tiny;
    memcpy(&bits, &x, sizeof bits);
    const uint32_t sign = bits >> 16 & 0x8000u, rest = bits & 0x7fffffffu;
    float size;
    memcpy(&size, &rest, sizeof size);
    /* The last bit of a number from 0.5 to 1 is 2^-24, that of denormal halves: the addition rounds to it. */
    size = (size < 0x1p-14F ? size : 0) + 0.5F;
    memcpy(&tiny, &size, sizeof tiny);
    const uint32_t normal = (rest + 0xfffu + (rest >> 13 & 1u)) >> 13;
    uint32_t half = rest < (127u - 14u) << 23 ? tiny - (126u << 23) : normal - ((127u - 15u) << 10);
    half = half > 0x7c00u ? 0x7c00u : half;
    return (uint16_t)((rest > 255u << 23 ? 0x7e00u : half) | sign);
}

#endif
