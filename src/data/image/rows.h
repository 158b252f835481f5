/* SPDX-License-Identifier: MIT */
/* The row kernels of resize.c, one table per vector width. Private to data/image. */
#ifndef DATA_IMAGE_ROWS_H
#define DATA_IMAGE_ROWS_H

#include <stdint.h>

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

#endif
