/* SPDX-License-Identifier: MIT */
/* Transposes of a batch, into lanes and back; part of tile.h. */
#ifndef KERNELS_CPU_DIRECT_TRANSPOSE_H
#define KERNELS_CPU_DIRECT_TRANSPOSE_H

#include <string.h>

#include "kernels/cpu/direct/vector.h"

/* A square of vectors is transposed in rounds that interleave rows half the square apart. */
#if DIRECT_LANES == 16
#define LOW_HALVES  0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23
#define HIGH_HALVES 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31
#elif DIRECT_LANES == 8
#define LOW_HALVES  0, 8, 1, 9, 2, 10, 3, 11
#define HIGH_HALVES 4, 12, 5, 13, 6, 14, 7, 15
#else
#define LOW_HALVES  0, 4, 1, 5
#define HIGH_HALVES 2, 6, 3, 7
#endif

INLINE void transpose_square(const float *from, int64_t from_row, float *to, int64_t to_row)
{
    vec_t a[LANES], b[LANES];
    for (int i = 0; i < LANES; i++) a[i] = *(const loose_t *)(from + i * from_row);
#pragma GCC unroll 4
    for (int round = 1; round < LANES; round *= 2) {
        for (int i = 0; i < LANES / 2; i++) {
            b[2 * i] = __builtin_shuffle(a[i], a[i + LANES / 2], (ints_t){LOW_HALVES});
            b[2 * i + 1] = __builtin_shuffle(a[i], a[i + LANES / 2], (ints_t){HIGH_HALVES});
        }
        for (int i = 0; i < LANES; i++) a[i] = b[i];
    }
    for (int i = 0; i < LANES; i++) *(loose_t *)(to + i * to_row) = a[i];
}

typedef uint8_t row_t __attribute__((vector_size(16), aligned(1), may_alias));
typedef uint8_t whole_row_t __attribute__((vector_size(16)));

INLINE void transpose_byte_square(const uint8_t *from, int64_t from_row, uint8_t *to, int64_t to_row)
{
    whole_row_t a[16], b[16];
    for (int i = 0; i < 16; i++) a[i] = *(const row_t *)(from + i * from_row);
#pragma GCC unroll 4
    for (int round = 1; round < 16; round *= 2) {
        for (int i = 0; i < 8; i++) {
            b[2 * i] = __builtin_shuffle(
                a[i], a[i + 8], (whole_row_t){0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23});
            b[2 * i + 1] = __builtin_shuffle(
                a[i], a[i + 8], (whole_row_t){8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31});
        }
        for (int i = 0; i < 16; i++) a[i] = b[i];
    }
    for (int i = 0; i < 16; i++) *(row_t *)(to + i * to_row) = a[i];
}

/* to[c][r] = from[r][c], in squares of `side`; the remainder element by element. */
#define TRANSPOSE(square, side, rows, cols, from, from_row, to, to_row)                                      \
    for (int64_t i = 0; i < (rows); i += (side))                                                             \
        for (int64_t j = 0; j < (cols); j += (side)) {                                                       \
            if (i + (side) <= (rows) && j + (side) <= (cols))                                                \
                square((from) + i * (from_row) + j, (from_row), (to) + j * (to_row) + i, (to_row));          \
            else                                                                                             \
                for (int64_t r = i; r < i + (side) && r < (rows); r++)                                       \
                    for (int64_t c = j; c < j + (side) && c < (cols); c++)                                   \
                        (to)[c * (to_row) + r] = (from)[r * (from_row) + c];                                 \
        }

static void transpose(const float *from, int64_t n, int64_t m, float *to)
{
    int64_t n_padded = padded_tiles(n);
    TRANSPOSE(transpose_square, LANES, n, m, from, m, to, n_padded)
    for (int64_t c = 0; c < m && n < n_padded; c++)
        memset(to + c * n_padded + n, 0, (size_t)(n_padded - n) * sizeof *to);
}

static void transpose_back(const float *from, int64_t n, int64_t m, float *to)
{
    int64_t n_padded = padded_tiles(n);
    TRANSPOSE(transpose_square, LANES, m, n, from, n_padded, to, m)
}

static void transpose_bytes_back(const uint8_t *from, int64_t n, int64_t m, uint8_t *to)
{
    int64_t n_padded = padded_tiles(n);
    TRANSPOSE(transpose_byte_square, 16, m, n, from, n_padded, to, m)
}

#endif
