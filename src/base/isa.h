/* SPDX-License-Identifier: MIT */
/* The instruction set of this x86-64 CPU, up to the cap set by the environment variable DPTRAIN_MAX_ISA
 * (base, avx2, avx512, avx512_bf16 or amx). The cap applies to oneDNN and to the program's own kernels. Not
 * collective; thread-safe. */
#ifndef BASE_ISA_H
#define BASE_ISA_H

#include <stdbool.h>

#include "base/err.h"

/* Each includes the ones before it. */
typedef enum isa {
    ISA_BASE,        /* what the build requires: x86-64-v2 unless ARCH says otherwise */
    ISA_AVX2,        /* x86-64-v3 */
    ISA_AVX512,      /* x86-64-v4 */
    ISA_AVX512_BF16, /* dot products of bfloat16 */
    ISA_AMX,         /* bfloat16 tiles */
} isa_t;

/* The best instruction set that may be used. ISA_BASE on other architectures. */
isa_t isa_best(void);

/* The user's cap; false if none is set. */
bool isa_capped(isa_t *cap);

/* ERR_USAGE if DPTRAIN_MAX_ISA is not the name of an instruction set. isa_best ignores such a value. */
err_t isa_check(void);

#endif
