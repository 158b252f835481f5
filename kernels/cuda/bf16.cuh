/* SPDX-License-Identifier: MIT */
/* Rounding to bfloat16 as in compute/tensor/float16.h: operands have the same bits on every backend, except that
 * the device has only one NaN. */
#ifndef KERNELS_CUDA_BF16_CUH
#define KERNELS_CUDA_BF16_CUH

#include <cuda_runtime.h>

#include <stdint.h>

/* Two values in a word, the second in the upper half. */
static __device__ inline uint32_t bf16_pair(float low, float high)
{
#ifdef __CUDA_ARCH__
    uint32_t pair;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
    return pair;
#else
    uint32_t half[2] = {__float_as_uint(low), __float_as_uint(high)};
    for (uint32_t &bits : half) {
        bool nan = (bits & 0x7fffffffu) > 0x7f800000u;
        bits = (nan ? 0x7fff0000u : bits + 0x7fffu + (bits >> 16 & 1)) >> 16;
    }
    return half[0] | half[1] << 16;
#endif
}

static __device__ inline uint16_t bf16_bits(float x)
{
    return static_cast<uint16_t>(bf16_pair(x, 0));
}

static __device__ inline float bf16_rounded(float x)
{
    return __uint_as_float(bf16_pair(0, x));
}

/* Stores an operand as float32, unchanged, or as bfloat16. */
static __device__ inline void store_operand(float *to, float x)
{
    *to = x;
}

static __device__ inline void store_operand(uint16_t *to, float x)
{
    *to = bf16_bits(x);
}

/* Operands as they are stored. */
static __device__ inline float widened(float x)
{
    return x;
}

static __device__ inline float widened(uint16_t bits)
{
    return __uint_as_float(static_cast<uint32_t>(bits) << 16);
}

#endif
