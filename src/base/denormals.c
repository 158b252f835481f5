/* SPDX-License-Identifier: MIT */
/* Sets flush-to-zero in the FPU control register of the calling thread: MXCSR on x86-64, FPCR on AArch64.
 * Threads started later inherit it. */
#include "base/isa.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif
#include <stdint.h>

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
