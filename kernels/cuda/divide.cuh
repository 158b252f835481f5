/* SPDX-License-Identifier: MIT */
/* Division by a number known at launch, as a multiplication: a quotient costs three instructions instead of
 * about thirty. Granlund & Montgomery, "Division by invariant integers using multiplication", 1994, figure
 * 4.1; numbers are < 2^31. */
#ifndef KERNELS_CUDA_DIVIDE_CUH
#define KERNELS_CUDA_DIVIDE_CUH

#include <cuda_runtime.h>

#include <stdint.h>

struct divider_t {
    uint32_t divisor, multiplier;
    int shift;
};

static inline divider_t divider_of(int64_t divisor)
{
    divider_t d = {static_cast<uint32_t>(divisor), 0, 0};
    while ((static_cast<uint64_t>(1) << d.shift) < d.divisor) d.shift++;
    uint64_t beyond = (static_cast<uint64_t>(1) << d.shift) - d.divisor;
    d.multiplier = static_cast<uint32_t>((beyond << 32) / d.divisor + 1);
    return d;
}

static __device__ inline uint32_t divide(uint32_t n, divider_t d, uint32_t *rest)
{
    uint32_t quotient =
        (static_cast<uint32_t>((static_cast<uint64_t>(n) * d.multiplier) >> 32) + n) >> d.shift;
    *rest = n - quotient * d.divisor;
    return quotient;
}

#endif
