/* SPDX-License-Identifier: MIT */
/* rng_philox and rng_dropout_block of base/rng.h on the device: the same words for the same key and counter.
 * Philox4x32-10: Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011. */
#ifndef KERNELS_CUDA_PHILOX_CUH
#define KERNELS_CUDA_PHILOX_CUH

#include <cuda_runtime.h>
#include <stdint.h>

#include "kernels/cuda/launch.cuh"

struct philox_block {
    uint32_t word[4];
};

static __device__ inline philox_block philox(uint64_t key, uint32_t c0, uint32_t c1, uint32_t c2, uint32_t c3)
{
    uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);
    for (int round = 0; round < 10; round++) {
        uint64_t p0 = (uint64_t)0xD2511F53u * c0, p1 = (uint64_t)0xCD9E8D57u * c2;
        uint32_t n0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0, n2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
        c1 = (uint32_t)p1, c3 = (uint32_t)p0, c0 = n0, c2 = n2;
        k0 += 0x9E3779B9u, k1 += 0xBB67AE85u;
    }
    return philox_block{{c0, c1, c2, c3}};
}

static __device__ inline philox_block dropout_block(uint64_t key, uint32_t layer, uint64_t step,
                                                    uint64_t sample, uint32_t i_div_4)
{
    return philox(key, i_div_4, (uint32_t)sample, (uint32_t)step, layer);
}

#endif
