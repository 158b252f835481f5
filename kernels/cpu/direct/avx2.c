/* SPDX-License-Identifier: MIT */
/* The tiles of tile.h for AVX2 and FMA: 8 lanes. NULL in builds for CPUs without it; base.c chooses at run
 * time. */
#include "kernels/cpu/direct/direct.h"

#ifdef __AVX2__
#define DIRECT_LANES 8
#define DIRECT_NAME  "avx2"
#include "kernels/cpu/direct/tile.h"
const direct_isa_t *const direct_avx2 = &table;
#else
const direct_isa_t *const direct_avx2 = NULL;
#endif
