/* bfloat16: the upper half of a float32, 8 bits of precision with the range of float. Products are rounded to
 * it; it is never a type of buffers between operators. */
#ifndef TENSOR_BF16_H
#define TENSOR_BF16_H

#include <stdint.h>
#include <string.h>

/* The nearest bfloat16 as a float, of two equally near the even one. Beyond the largest: infinite. Denormal
 * numbers stay what they are, NaN stays NaN (quiet). Without branches, so that loops over it vectorise. */
static inline float bf16_round(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    uint32_t nearest = bits + 0x7fffu + (bits >> 16 & 1);
    bits = (x != x ? bits | 0x00400000u : nearest) & 0xffff0000u;
    memcpy(&x, &bits, sizeof x);
    return x;
}

#endif
