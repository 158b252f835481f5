/* SPDX-License-Identifier: MIT */
/* Rounding to bfloat16 as in compute/tensor/bf16.h: operands have the same bits on every backend. */
#ifndef KERNELS_CUDA_BF16_CUH
#define KERNELS_CUDA_BF16_CUH

#include <cuda_runtime.h>

#include <stdint.h>

static __device__ inline uint32_t bf16_nearest(float x)
{
    uint32_t bits = __float_as_uint(x);
    return x != x ? bits | 0x00400000u : bits + 0x7fffu + (bits >> 16 & 1);
}

static __device__ inline uint16_t bf16_bits(float x)
{
    return static_cast<uint16_t>(bf16_nearest(x) >> 16);
}

static __device__ inline float bf16_rounded(float x)
{
    return __uint_as_float(bf16_nearest(x) & 0xffff0000u);
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
