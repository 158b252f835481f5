/* SPDX-License-Identifier: MIT */
/* The tiles of tile.h with the build's own instruction set: 4 lanes. The fallback when neither AVX2 nor
 * AVX-512 is available; and the choice. */
#include "kernels/cpu/direct/tile.h"

#include "base/isa.h"

const direct_isa_t *const direct_base = &table;

const direct_isa_t *direct_isa(void)
{
#ifdef __x86_64__
    if (direct_avx512 && isa_best() >= ISA_AVX512) return direct_avx512;
    if (direct_avx2 && isa_best() >= ISA_AVX2) return direct_avx2;
#endif
    return direct_base;
}
