/* SPDX-License-Identifier: MIT */
/* The row kernels of resize.c, one table per vector width. With ROWS_LANES, which rows_*.c define, also the kernels
 * themselves, for vectors of ROWS_LANES × 128 bits, and their table, ROWS_TABLE. Private to data/image. */
#ifndef DATA_IMAGE_ROWS_H
#define DATA_IMAGE_ROWS_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Fixed-point weights: sums of their products with 8-bit pixels stay below 2^31, rounding included. Each is
 * split into two 16-bit parts for multiply-add instructions. */
enum {
    ROWS_BITS = 22, /* a weight of 1 is 2^22 */
    ROWS_ONE = 1 << ROWS_BITS,
    ROWS_HALF = ROWS_ONE / 2,
    ROWS_LOW_BITS = 11,
    ROWS_LOW_MASK = (1 << ROWS_LOW_BITS) - 1
};
enum {
    ROWS_STEP = 4,    /* pixels computed together; taps are padded to whole steps */
    ROWS_MOST = 4,    /* maximum n_together */
    ROWS_BLOCK = 64,  /* maximum bytes mixed together; rows to mix are padded to whole blocks */
    ROWS_BEHIND = 16, /* bytes read beyond a row's pixels, and written beyond whole steps */
};

/* The weights of two neighbouring pixels, repeated to fill 128 bits. */
typedef struct pair {
    int16_t high[8], low[8]; /* first, second, first, second, … */
} pair_t;

/* Output pixel i is the sum of 2 n_pairs input pixels from first[i] on, weighted by pairs[i * n_pairs] on.
 * Weights may be 0; in an image narrower than the window, those beyond its edge are. */
typedef struct taps {
    int64_t n_out, n_pairs;
    int32_t *first;
    pair_t *pairs;
} taps_t;

/* All tables compute the same bits, because sums are integers. */
typedef struct rows_ops {
    const char *name;
    int n_together;
    /* Resizes n_together rows horizontally. */
    void (*resize)(const taps_t *x, const uint8_t *const *rows, uint8_t *const *out);
    /* Mixes 2 n_pairs rows of n_bytes into one. */
    void (*mix)(const uint8_t *const *rows, const pair_t *pairs, int64_t n_pairs, int64_t n_bytes,
                uint8_t *out);
} rows_ops_t;

/* NULL if not built for this architecture. */
extern const rows_ops_t *const rows_sse41, *const rows_avx2, *const rows_avx512;
extern const rows_ops_t rows_plain;

/* The fastest table this machine supports. */
const rows_ops_t *rows_ops(void);

#ifdef ROWS_LANES
#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>

/* A lane holds one of several rows, or 16 bytes of one row. OP(name): the intrinsic of this width. */
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

/* The row kernels: resize computes ROWS_LANES rows together, mix ROWS_LANES blocks of 16 bytes of one row. */
enum { RGB = 3 };

/* Shuffles: interleave the channels of two pixels as 16-bit numbers; those of the next two; drop every fourth
 * byte. */
static const int8_t in_twos_bytes[16] = {0, -1, 3, -1, 1, -1, 4, -1, 2, -1, 5, -1, -1, -1, -1, -1};
static const int8_t next_twos_bytes[16] = {6, -1, 9, -1, 7, -1, 10, -1, 8, -1, 11, -1, -1, -1, -1, -1};
static const int8_t closed_up_bytes[16] = {0, 1, 2, 4, 5, 6, 8, 9, 10, 12, 13, 14, -1, -1, -1, -1};

/* Multiplies 16-bit numbers by a pair's weights and adds neighbouring products to the high and low sums. */
INLINE void add_products(vec_t sums[2], vec_t numbers, const pair_t *pair)
{
    sums[0] = OP(add_epi32)(sums[0], OP(madd_epi16)(numbers, spread(pair->high)));
    sums[1] = OP(add_epi32)(sums[1], OP(madd_epi16)(numbers, spread(pair->low)));
}

INLINE vec_t round_sum(const vec_t sums[2])
{
    return OP(srai_epi32)(OP(add_epi32)(OP(slli_epi32)(sums[0], ROWS_LOW_BITS), sums[1]), ROWS_BITS);
}

/* Returns a pixel's three channels in each lane; the fourth number is 0. */
INLINE vec_t resize_pixel(const pair_t *pairs, int64_t n_pairs, const uint8_t *const *rows, int64_t at)
{
    const vec_t in_twos = spread(in_twos_bytes), next_twos = spread(next_twos_bytes);
    vec_t sums[2] = {OP(set1_epi32)(0), OP(set1_epi32)(ROWS_HALF)};
    int64_t k = 0;
    for (; k + 2 <= n_pairs; k += 2) {
        const vec_t four = gather(rows, at + 2 * RGB * k);
        add_products(sums, OP(shuffle_epi8)(four, in_twos), &pairs[k]);
        add_products(sums, OP(shuffle_epi8)(four, next_twos), &pairs[k + 1]);
    }
    if (k < n_pairs) add_products(sums, OP(shuffle_epi8)(gather(rows, at + 2 * RGB * k), in_twos), &pairs[k]);
    return round_sum(sums);
}

INLINE void resize_pixels(const taps_t *x, int64_t n_pairs, const uint8_t *const *in, uint8_t *const *out)
{
    const uint8_t *rows[ROWS_LANES];
    const vec_t closed_up = spread(closed_up_bytes);
    const pair_t *pairs = x->pairs;
    const int32_t *first = x->first;
    const int64_t n_out = x->n_out;
    for (int r = 0; r < ROWS_LANES; r++) rows[r] = in[r];
    for (int64_t i = 0; i < n_out; i += ROWS_STEP, pairs += ROWS_STEP * n_pairs) {
        vec_t sums[ROWS_STEP];
        for (int64_t k = 0; k < ROWS_STEP; k++)
            sums[k] = resize_pixel(pairs + k * n_pairs, n_pairs, rows, (int64_t)RGB * first[i + k]);
        const vec_t pixels =
            OP(packus_epi16)(OP(packus_epi32)(sums[0], sums[1]), OP(packus_epi32)(sums[2], sums[3]));
        scatter(OP(shuffle_epi8)(pixels, closed_up), out, RGB * i);
    }
}

TARGET static void resize_together(const taps_t *x, const uint8_t *const *rows, uint8_t *const *out)
{
    switch (x->n_pairs) {
    case 1:
        resize_pixels(x, 1, rows, out);
        break;
    case 2:
        resize_pixels(x, 2, rows, out);
        break;
    case 3:
        resize_pixels(x, 3, rows, out);
        break;
    default:
        resize_pixels(x, x->n_pairs, rows, out);
    }
}

INLINE vec_t mix_block(const uint8_t *const *rows, int64_t at, const pair_t *pairs, int64_t n_pairs)
{
    const vec_t zero = OP(set1_epi32)(0), half = OP(set1_epi32)(ROWS_HALF);
    vec_t sums[4][2] = {{zero, half}, {zero, half}, {zero, half}, {zero, half}};
    for (int64_t k = 0; k < n_pairs; k++) {
        vec_t a, b;
        memcpy(&a, rows[2 * k] + at, sizeof a);
        memcpy(&b, rows[2 * k + 1] + at, sizeof b);
        const vec_t left = OP(unpacklo_epi8)(a, b), right = OP(unpackhi_epi8)(a, b);
        add_products(sums[0], OP(unpacklo_epi8)(left, zero), &pairs[k]);
        add_products(sums[1], OP(unpackhi_epi8)(left, zero), &pairs[k]);
        add_products(sums[2], OP(unpacklo_epi8)(right, zero), &pairs[k]);
        add_products(sums[3], OP(unpackhi_epi8)(right, zero), &pairs[k]);
    }
    return OP(packus_epi16)(OP(packus_epi32)(round_sum(sums[0]), round_sum(sums[1])),
                            OP(packus_epi32)(round_sum(sums[2]), round_sum(sums[3])));
}

INLINE void mix_blocks(const uint8_t *const *rows, const pair_t *pairs, int64_t n_pairs, int64_t n_bytes,
                       uint8_t *out)
{
    int64_t at = 0;
    for (; at + (int64_t)sizeof(vec_t) <= n_bytes; at += (int64_t)sizeof(vec_t)) {
        const vec_t block = mix_block(rows, at, pairs, n_pairs);
        memcpy(out + at, &block, sizeof block);
    }
    if (at == n_bytes) return;
    const vec_t block = mix_block(rows, at, pairs, n_pairs);
    memcpy(out + at, &block, (size_t)(n_bytes - at));
}

TARGET static void mix(const uint8_t *const *rows, const pair_t *pairs, int64_t n_pairs, int64_t n_bytes,
                       uint8_t *out)
{
    switch (n_pairs) {
    case 1:
        mix_blocks(rows, pairs, 1, n_bytes, out);
        break;
    case 2:
        mix_blocks(rows, pairs, 2, n_bytes, out);
        break;
    case 3:
        mix_blocks(rows, pairs, 3, n_bytes, out);
        break;
    default:
        mix_blocks(rows, pairs, n_pairs, n_bytes, out);
    }
}

static const rows_ops_t table = {ROWS_NAME, ROWS_LANES, resize_together, mix};
#define ROWS_TABLE &table
#else
#define ROWS_TABLE NULL
#endif
#endif

#endif
