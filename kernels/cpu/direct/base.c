/* SPDX-License-Identifier: MIT */
/* The tiles of tile.h with the build's own instruction set: 4 lanes. The fallback when neither AVX2 nor
 * AVX-512 is available. */
#include "kernels/cpu/direct/tile.h"

const direct_isa_t *const direct_base = &table;
