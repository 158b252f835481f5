/* SPDX-License-Identifier: MIT */
/* Detects the CPU's instruction set and reads DPTRAIN_MAX_ISA, both once. Dispatch is left to the kernels
 * that ask. Flushing of denormals is a bit of the FPU's control register: MXCSR on x86-64, FPCR on AArch64. */
#include "base/isa.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static const char *const isa_names[] = {[ISA_BASE] = "base",
                                        [ISA_AVX2] = "avx2",
                                        [ISA_AVX512] = "avx512",
                                        [ISA_AVX512_BF16] = "avx512_bf16",
                                        [ISA_AMX] = "amx"};
enum { N_ISAS = sizeof isa_names / sizeof isa_names[0] };

/* ISA_AMX only means that AMX is not ruled out: Linux must grant the tiles, which kernels/cpu/amx.c checks.
 */
static isa_t isa_of_cpu(void)
{
#ifdef __x86_64__
    if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma") || !__builtin_cpu_supports("bmi2"))
        return ISA_BASE;
    if (!__builtin_cpu_supports("avx512f") || !__builtin_cpu_supports("avx512bw") ||
        !__builtin_cpu_supports("avx512cd") || !__builtin_cpu_supports("avx512dq") ||
        !__builtin_cpu_supports("avx512vl"))
        return ISA_AVX2;
    return __builtin_cpu_supports("avx512bf16") ? ISA_AMX : ISA_AVX512;
#else
    return ISA_BASE;
#endif
}

bool isa_capped(isa_t *cap)
{
    const char *text = getenv("DPTRAIN_MAX_ISA");
    for (int i = 0; text && i < N_ISAS; i++)
        if (strcmp(text, isa_names[i]) == 0) {
            *cap = (isa_t)i;
            return true;
        }
    return false;
}

isa_t isa_best(void)
{
    static _Atomic int known; /* 1 + the answer */
    int best = atomic_load_explicit(&known, memory_order_relaxed);
    if (best == 0) {
        isa_t cap, cpu = isa_of_cpu();
        best = 1 + (int)(isa_capped(&cap) && cap < cpu ? cap : cpu);
        atomic_store_explicit(&known, best, memory_order_relaxed);
    }
    return (isa_t)(best - 1);
}

err_t isa_check(void)
{
    const char *text = getenv("DPTRAIN_MAX_ISA");
    isa_t cap;
    if (!text || !text[0] || isa_capped(&cap)) return ERR_OK;
    RAISE(ERR_USAGE, "invalid DPTRAIN_MAX_ISA '%s': expected base, avx2, avx512, avx512_bf16 or amx", text);
}

void denormals_flush(void)
{
#if defined(__x86_64__)
    _mm_setcsr(_mm_getcsr() | _MM_FLUSH_ZERO_ON | 0x40 /* read as zero */);
#elif defined(__aarch64__)
    uint64_t control;
    __asm__ __volatile__("mrs %0, fpcr" : "=r"(control));
    __asm__ __volatile__("msr fpcr, %0" : : "r"(control | UINT64_C(1) << 24));
#endif
}
