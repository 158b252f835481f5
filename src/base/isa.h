/* SPDX-License-Identifier: MIT */
/* Instruction sets of x86-64 CPUs: what this one has, up to the cap that the environment variable
 * DPTRAIN_MAX_ISA sets (base, avx2, avx512, avx512_bf16 or amx). The cap holds for oneDNN and for the
 * program's own kernels alike. Not collective; any thread. */
#ifndef BASE_ISA_H
#define BASE_ISA_H

#include <stdbool.h>

#include "base/err.h"

/* Each includes those before it. */
typedef enum isa {
    ISA_BASE,        /* what the build requires: x86-64-v2 unless ARCH says otherwise */
    ISA_AVX2,        /* x86-64-v3 */
    ISA_AVX512,      /* x86-64-v4 */
    ISA_AVX512_BF16, /* dot products of bfloat16 */
    ISA_AMX,         /* bfloat16 tiles */
} isa_t;

/* The best that may be used here. On other architectures ISA_BASE. */
isa_t isa_best(void);

/* The user's cap; false: there is none. */
bool isa_capped(isa_t *cap);

/* ERR_USAGE when DPTRAIN_MAX_ISA names no instruction set. Until then such a value counts as no cap. */
err_t isa_check(void);

#endif
