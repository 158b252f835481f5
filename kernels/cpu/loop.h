/* SPDX-License-Identifier: MIT */
/* Shared by the cpu backend's own loops: when to fork, how to cut arrays, access to tensors of either type, and
 * clones for wider vectors than the build's.
 *
 * An array is cut into blocks of a fixed size whatever the number of threads, so that results do not depend
 * on it. Short arrays stay on one thread: a fork and join costs about as much as 10 000 elements. */
#ifndef KERNELS_CPU_LOOP_H
#define KERNELS_CPU_LOOP_H

#include <stdbool.h>
#include <stdint.h>

#include "base/isa.h"
#include "compute/tensor/float16.h"

enum {
    LOOP_BLOCK = 1 << 13,    /* elements a thread takes at a time */
    LOOP_FORK_MIN = 1 << 15, /* from this many elements on, more than one thread works */
};

/* Length of the block that begins at `first` of n elements. */
static inline int64_t loop_count(int64_t first, int64_t n, int64_t block)
{
    return n - first < block ? n - first : block;
}

/* n rounded up to a multiple of `block`. */
static inline int64_t loop_round_up(int64_t n, int64_t block)
{
    return (n + block - 1) / block * block;
}

/* Access to tensors stored as float32 or, if `narrow`, as bfloat16: one body of code for both, inlined with
 * `narrow` as a constant. */
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
