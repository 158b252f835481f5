/* SPDX-License-Identifier: MIT */
/* Vectors of ROWS_LANES × 128 bits. Each rows_*.c compiles them for one instruction set. A lane holds one of
 * several rows, or 16 bytes of one row. */
#ifndef DATA_IMAGE_ROWS_LANES_H
#define DATA_IMAGE_ROWS_LANES_H

#include <stdint.h>

#ifndef ROWS_LANES
#define ROWS_LANES 1
#endif

#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>

/* OP(name): the intrinsic of this width. */
#if ROWS_LANES == 1
#define ROWS_NAME "sse4.1"
#define TARGET    __attribute__((target("sse4.1")))
#define OP(name)  _mm_##name
typedef __m128i vec_t;
#elif ROWS_LANES == 2
#define ROWS_NAME "avx2"
#define TARGET    __attribute__((target("avx2")))
#define OP(name)  _mm256_##name
typedef __m256i vec_t;
#else
#define ROWS_NAME "avx512"
#define TARGET    __attribute__((target("avx512f,avx512bw")))
#define OP(name)  _mm512_##name
typedef __m512i vec_t;
#endif
#define INLINE TARGET __attribute__((always_inline)) static inline

INLINE __m128i load(const void *from)
{
    return _mm_loadu_si128(from);
}

/* Copies 16 bytes to every lane. */
INLINE vec_t spread(const void *from)
{
#if ROWS_LANES == 1
    return load(from);
#elif ROWS_LANES == 2
    return _mm256_broadcastsi128_si256(load(from));
#else
    return _mm512_broadcast_i32x4(load(from));
#endif
}

/* Loads 16 bytes of each row into its lane. */
INLINE vec_t gather(const uint8_t *const *rows, int64_t at)
{
#if ROWS_LANES == 1
    return load(rows[0] + at);
#else
    const __m256i two =
        _mm256_inserti128_si256(_mm256_castsi128_si256(load(rows[0] + at)), load(rows[1] + at), 1);
#if ROWS_LANES == 2
    return two;
#else
    const __m256i other =
        _mm256_inserti128_si256(_mm256_castsi128_si256(load(rows[2] + at)), load(rows[3] + at), 1);
    return _mm512_inserti64x4(_mm512_castsi256_si512(two), other, 1);
#endif
#endif
}

INLINE void scatter(vec_t lanes, uint8_t *const *rows, int64_t at)
{
    for (int r = 0; r < ROWS_LANES; r++) __builtin_memcpy(rows[r] + at, (const char *)&lanes + 16 * r, 16);
}
#endif

#endif
