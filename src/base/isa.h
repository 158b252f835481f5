/* SPDX-License-Identifier: MIT */
/* The instruction set of this x86-64 CPU, up to the cap set by the environment variable DPTRAIN_MAX_ISA
 * (base, avx2, avx512, avx512_bf16 or amx), which applies to oneDNN and to the program's own kernels; functions compiled
 * for several; and the flushing of denormals. Not collective; thread-safe. */
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

/* Compiles a function for several vector widths; each call runs the widest that the CPU and DPTRAIN_MAX_ISA
 * allow. All versions compute the same bits: -ffp-contract=off, and sums are not reordered.
 *
 *     LOOP_CLONES(add_block, (float *y, const float *x, int64_t n), (y, x, n))
 *     {
 *         for (int64_t i = 0; i < n; i++) y[i] += x[i];
 *     }
 */
#if defined(__x86_64__) && defined(__GNUC__)
#define CLONES_BODY(name, params) static inline __attribute__((always_inline)) void name##_body params
#define CLONES_AVX2(name, params, args)                                                                      \
    static __attribute__((target("avx2,fma,f16c,bmi,bmi2,lzcnt,movbe"))) void name##_avx2 params             \
    {                                                                                                        \
        name##_body args;                                                                                    \
    }
#define CLONES_AVX512(name, params, args)                                                                    \
    static __attribute__((                                                                                   \
        target("avx2,fma,f16c,bmi,bmi2,lzcnt,movbe,avx512f,avx512bw,avx512cd,avx512dq,avx512vl"))) void      \
        name##_avx512 params                                                                                 \
    {                                                                                                        \
        name##_body args;                                                                                    \
    }

/* Up to AVX2. AVX-512 sped max pooling over 50 and 64 channels up from 129 to 106 µs and from 106 to 82 µs,
 * but slowed it down over 20 channels, which leave scalar tails, from 508 to 1337 µs. */
#define LOOP_CLONES(name, params, args)                                                                      \
    CLONES_BODY(name, params);                                                                               \
    CLONES_AVX2(name, params, args)                                                                          \
    static void name params                                                                                  \
    {                                                                                                        \
        if (isa_best() >= ISA_AVX2)                                                                          \
            name##_avx2 args;                                                                                \
        else                                                                                                 \
            name##_body args;                                                                                \
    }                                                                                                        \
    CLONES_BODY(name, params)

/* Up to AVX-512, for loops over whole vectors of 16 floats. */
#define WIDE_CLONES(name, params, args)                                                                      \
    CLONES_BODY(name, params);                                                                               \
    CLONES_AVX2(name, params, args)                                                                          \
    CLONES_AVX512(name, params, args)                                                                        \
    static void name params                                                                                  \
    {                                                                                                        \
        if (isa_best() >= ISA_AVX512)                                                                        \
            name##_avx512 args;                                                                              \
        else if (isa_best() >= ISA_AVX2)                                                                     \
            name##_avx2 args;                                                                                \
        else                                                                                                 \
            name##_body args;                                                                                \
    }                                                                                                        \
    CLONES_BODY(name, params)
#else
#define LOOP_CLONES(name, params, args) static void name params
#define WIDE_CLONES(name, params, args) static void name params
#endif

/* Flushes denormal numbers to zero. Gradients and velocities that decay to zero pass through many denormals,
 * each of which costs x86 an assist of 150 cycles: without this the optimizer took ten times as long once
 * enough weights had stopped moving. */

/* Treats denormal operands and results as 0, in this thread and in threads started by it. Does nothing on
 * processors without such a mode. */
void denormals_flush(void);

#endif
