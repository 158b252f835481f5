/* SPDX-License-Identifier: MIT */
/* Matrix products of bfloat16 operands with float32 accumulation on AMX. Its matrix registers ("tiles") have
 * 16 rows of 64 bytes; one instruction multiplies 16×32 by 32×16 (Intel 64 and IA-32 Architectures Software
 * Developer's Manual, volume 1, chapter 18). Operands are packed first, and rounded in the process:
 *
 *   left tile   up to 16 rows of 32 values, the rows `left_row` bytes apart
 *   right tile  [16 pairs of rows][16 columns][2 of the pair]: AMX_TILE_BYTES, contiguous
 *
 * Rounding is to nearest even; denormals become 0. Operands that already are bfloat16 are packed unchanged.
 * Not collective. */
#ifndef KERNELS_CPU_AMX_H
#define KERNELS_CPU_AMX_H

#include <stdbool.h>
#include <stdint.h>

#include "compute/tensor/tensor.h"

enum { AMX_ROWS = 16, AMX_COLUMNS = 16, AMX_DEPTH = 32, AMX_TILE_BYTES = 1024 };
enum { AMX_SPIN_FLOPS = 4 * 2 * AMX_ROWS * AMX_COLUMNS * AMX_DEPTH };

/* A product sums, over the taps t and the steps i < n_steps,
 *
 *   left tile (left + tap[t].left + i · left_step) times right tile (right + tap[t].right + i · right_step)
 *
 * All offsets are in bytes. */
typedef struct amx_tap {
    int64_t left, right;
} amx_tap_t;

typedef struct amx_product {
    const amx_tap_t *taps;
    int64_t n_taps, n_steps;
    int rows; /* as in begin */
    int64_t left_row, left_step;
    int64_t right_step, right_second; /* right_second: from the first to the second right tile of a step */
    int64_t out_row;                  /* bytes between output rows */
    bool add;                         /* accumulate onto the output; otherwise start from the bias */
    bool stream;       /* non-temporal stores; output rows are then multiples of 64 bytes apart */
    dtype_t out_dtype; /* DTYPE_F32, or DTYPE_BF16 without `add` */
} amx_product_t;

/* The operands and outputs of one call: one or two left tiles, one or two right tiles. out[i] belongs to
 * left[i] and is [rows][16 · n_right]. */
typedef struct amx_place {
    const void *left[2]; /* the second may be NULL */
    const void *right;
    int n_right;       /* 1 or 2 */
    const float *bias; /* [16 · n_right] */
    void *out[2];
} amx_place_t;

typedef struct amx {
    /* A thread calls multiply only between begin and end.
     *
     *   rows  of the left tiles and of the output, 1 to 16 */
    void (*begin)(int rows);
    void (*end)(void);
    void (*multiply)(const amx_product_t *product, const amx_place_t *place);
    /* n times AMX_SPIN_FLOPS on the registers alone: as fast as tiles can be multiplied. Begins and ends itself. */
    void (*spin)(int64_t n);

    /* to[0 … n_padded) = from[0 … n), then zeros. */
    void (*pack_row)(const void *from, dtype_t dtype, int64_t n, int64_t n_padded, uint16_t *to);
    /* A right tile of 16 columns of n ≤ 32 contiguous values each, the columns `column` values apart;
     * zero-padded. */
    void (*pack_columns)(const float *from, int64_t column, int64_t n, uint16_t *to);
    /* Right tiles of n_rows rows (an even number) and at most 16 columns, from `first` on; zero-padded. Each
     * tile continues with the next pairs of rows. */
    void (*pack_pairs)(const void *const *rows, dtype_t dtype, int64_t n_rows, int64_t first,
                       int64_t n_columns, uint16_t *to);
    /* A left tile: 16 columns of 32 rows, from column `first` on, transposed. */
    void (*pack_turned)(const void *const *rows, dtype_t dtype, int64_t first, uint16_t *to);
} amx_t;

/* NULL if this build, the CPU or Linux lacks AMX, or oneDNN is not allowed to use it. */
const amx_t *amx_here(void);

#endif
