/* SPDX-License-Identifier: MIT */
/* Shared by the cpu backend's own loops: when to fork, how to cut arrays, and clones for wider vectors than
 * the build's.
 *
 * An array is cut into blocks of a fixed size whatever the number of threads, so that results do not depend
 * on it. Short arrays stay on one thread: a fork and join costs about as much as 10 000 elements. */
#ifndef KERNELS_CPU_LOOP_H
#define KERNELS_CPU_LOOP_H

#include <stdint.h>

#include "base/isa.h"

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

#endif
