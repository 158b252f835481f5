/* SPDX-License-Identifier: MIT */
/* The tiles of tile.h for AVX-512: 16 lanes. NULL in builds for CPUs without it; base.c chooses at run
 * time. */
#include "kernels/cpu/direct/direct.h"

#ifdef __AVX512F__
#define DIRECT_LANES 16
#define DIRECT_NAME  "avx512"
#include "kernels/cpu/direct/tile.h"
const direct_isa_t *const direct_avx512 = &table;
#else
const direct_isa_t *const direct_avx512 = NULL;
#endif
