/* SPDX-License-Identifier: MIT */
/* Conversion of IEEE 754 binary16 ("half": 5 exponent bits, 11 bits of precision). dptrain does not compute
 * with it: imported weights may have this type, and NCCL benchmarks send it. */
#ifndef COMPUTE_TENSOR_HALF_H
#define COMPUTE_TENSOR_HALF_H

#include <math.h>
#include <stdint.h>
#include <string.h>

/* Exact for every x that is 0 or a normal half; undefined for other x. */
static inline uint16_t half_from_exact(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    uint32_t rest = bits & 0x7fffffffu;
    return (uint16_t)((bits >> 16 & 0x8000u) | (rest ? (rest >> 13) - ((127u - 15u) << 10) : 0));
}

static inline float half_to_float(uint16_t bits)
{
    int exponent = bits >> 10 & 31, fraction = bits & 1023;
    float size = exponent == 31 ? (fraction ? NAN : INFINITY)
                 : exponent     ? ldexpf((float)(1024 + fraction), exponent - 25)
                                : ldexpf((float)fraction, -24);
    return bits >> 15 ? -size : size;
}

#endif
