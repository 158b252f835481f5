/* SPDX-License-Identifier: MIT */
/* Vectors of DIRECT_LANES floats, for the files that base.c, avx2.c and avx512.c compile for one instruction
 * set each. */
#ifndef KERNELS_CPU_DIRECT_VECTOR_H
#define KERNELS_CPU_DIRECT_VECTOR_H

#include <stdint.h>

#ifndef DIRECT_LANES /* available on every machine */
#define DIRECT_LANES 4
#define DIRECT_NAME  "base"
#endif

enum { LANES = DIRECT_LANES, N_TILE = 2 * LANES };

typedef float vec_t __attribute__((vector_size(4 * DIRECT_LANES), may_alias));
typedef float loose_t __attribute__((vector_size(4 * DIRECT_LANES), aligned(4), may_alias));
typedef int32_t ints_t __attribute__((vector_size(4 * DIRECT_LANES)));
typedef uint8_t bytes_t __attribute__((vector_size(DIRECT_LANES), aligned(1), may_alias));

#define INLINE __attribute__((always_inline)) static inline

INLINE vec_t select(ints_t which, vec_t yes, vec_t no)
{
    return (vec_t)(((ints_t)yes & which) | ((ints_t)no & ~which));
}

/* n rounded up to whole tiles. */
INLINE int64_t padded_tiles(int64_t n)
{
    return (n + N_TILE - 1) / N_TILE * N_TILE;
}

#endif
