/* SPDX-License-Identifier: MIT */
/* Access to tensors stored as float32 or, if `narrow`, as bfloat16: one body of code for both, inlined with
 * `narrow` as a constant. */
#ifndef KERNELS_CPU_NARROW_H
#define KERNELS_CPU_NARROW_H

#include "compute/ops/op_desc.h"
#include "compute/tensor/bf16.h"

#define NARROW_INLINE static inline __attribute__((always_inline))

/* Whether all inputs and y are bfloat16. A mixture occurs only at the ends of a network; compute/ops/narrow.h
 * handles it. */
static inline bool narrow_all(const op_desc_t *desc)
{
    bool all = desc->y_dtype[0] == DTYPE_BF16;
    for (int i = 0; i < desc->n_inputs; i++) all &= desc->x_dtype[i] == DTYPE_BF16;
    return all;
}

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
