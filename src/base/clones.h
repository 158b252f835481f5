/* SPDX-License-Identifier: MIT */
/* Compiles a function for several vector widths; each call runs the widest that the CPU and DPTRAIN_MAX_ISA
 * allow. All versions compute the same bits: -ffp-contract=off, and sums are not reordered.
 *
 *     LOOP_CLONES(add_block, (float *y, const float *x, int64_t n), (y, x, n))
 *     {
 *         for (int64_t i = 0; i < n; i++) y[i] += x[i];
 *     }
 */
#ifndef BASE_CLONES_H
#define BASE_CLONES_H

#include "base/isa.h"

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

#endif
