/* SPDX-License-Identifier: MIT */
/* The two steps of resizing, for each width of vectors. Within the room. */
#ifndef DATA_IMAGE_ROWS_H
#define DATA_IMAGE_ROWS_H

#include <stdint.h>

/* A weight of 1, in bits: products with 8 bits, their sum and its rounding stay below 2^31. Weights are kept
 * in two parts, of which products with 8 bits stay below 2^31 in pairs. */
enum {
    ROWS_BITS = 22,
    ROWS_ONE = 1 << ROWS_BITS,
    ROWS_HALF = ROWS_ONE / 2,
    ROWS_LOW_BITS = 11,
    ROWS_LOW_MASK = (1 << ROWS_LOW_BITS) - 1
};
enum {
    ROWS_STEP = 4,    /* pixels that are made together: taps are for whole steps */
    ROWS_MOST = 4,    /* rows that any table makes together */
    ROWS_BLOCK = 64,  /* bytes that any table mixes together: rows to mix have room for whole ones */
    ROWS_BEHIND = 16, /* bytes behind a row's pixels that may be read, and behind whole steps written */
};

/* The weights of two neighbours, high and low parts, as often as 128 bits have room for a sum of both. */
typedef struct pair {
    int16_t high[8], low[8]; /* of the first, of the second, of the first, … */
} pair_t;

/* How one side is made: the result's pixel i is the sum of 2 n_pairs pixels from first[i] on, by the weights
 * in pairs[i * n_pairs]; some may be 0, and beyond an image of fewer pixels. */
typedef struct taps {
    int64_t n_out, n_pairs;
    int32_t *first;
    pair_t *pairs;
} taps_t;

/* Every table makes the same bits: sums of integers. */
typedef struct rows_ops {
    const char *name;
    int n_together;
    /* n_together rows of pixels. */
    void (*resize)(const taps_t *x, const uint8_t *const *rows, uint8_t *const *out);
    /* A row of n_bytes, from 2 n_pairs rows of which each pair has its weights. */
    void (*mix)(const uint8_t *const *rows, const pair_t *pairs, int64_t n_pairs, int64_t n_bytes,
                uint8_t *out);
} rows_ops_t;

/* Without the instructions, or the compiler for them: NULL. */
extern const rows_ops_t *const rows_sse41, *const rows_avx2, *const rows_avx512;
extern const rows_ops_t rows_plain;

/* The best that this machine has. */
const rows_ops_t *rows_ops(void);

#endif
