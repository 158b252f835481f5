/* SPDX-License-Identifier: MIT */
/* Access to tensors stored as float32 or, if `narrow`, as bfloat16: one body of code for both, inlined with
 * `narrow` as a constant. */
#ifndef KERNELS_CPU_NARROW_H
#define KERNELS_CPU_NARROW_H

#include <stdbool.h>
#include <stdint.h>

#include "compute/tensor/float16.h"

#define NARROW_INLINE static inline __attribute__((always_inline))

/* Address of element i. */
NARROW_INLINE void *narrow_at(const void *tensor, int64_t i, bool narrow)
{
    return (char *)tensor + i * (int64_t)(narrow ? sizeof(uint16_t) : sizeof(float));
}

NARROW_INLINE float narrow_take(const void *tensor, int64_t i, bool narrow)
{
    return narrow ? bf16_to_float(((const uint16_t *)tensor)[i]) : ((const float *)tensor)[i];
}

/* Rounds to the stored type. */
NARROW_INLINE void narrow_put(void *tensor, int64_t i, float value, bool narrow)
{
    if (narrow)
        ((uint16_t *)tensor)[i] = bf16_from_float(value);
    else
        ((float *)tensor)[i] = value;
}

#endif
