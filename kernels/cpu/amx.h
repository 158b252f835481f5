/* Products of bfloat16 with float32 sums on AMX: matrix registers ("tiles") of 16 rows of 64 bytes, one
 * instruction of which multiplies 16×32 by 32×16 (Intel 64 and IA-32 Architectures Software Developer's
 * Manual, volume 1, chapter 18). What is multiplied is packed before, and rounded while it is:
 *
 *   left tile   up to 16 rows of 32 values, the rows `left_row` bytes apart
 *   right tile  [16 pairs of rows][16 columns][2 of the pair]: AMX_TILE_BYTES in one piece
 *
 * Rounding is to the nearest even; denormal numbers become 0. What comes as bfloat16 is packed as it is. Not
 * collective. */
#ifndef KERNELS_CPU_AMX_H
#define KERNELS_CPU_AMX_H

#include <stdbool.h>
#include <stdint.h>

#include "compute/tensor/dtype.h"

enum { AMX_ROWS = 16, AMX_COLUMNS = 16, AMX_DEPTH = 32, AMX_TILE_BYTES = 1024 };

/* Sums over the taps t and the steps i < n_steps of left tile (left + tap[t].left + i · left_step) times
 * right tile (right + tap[t].right + i · right_step): offsets in bytes. */
typedef struct amx_tap {
    int64_t left, right;
} amx_tap_t;

typedef struct amx_product {
    const amx_tap_t *taps;
    int64_t n_taps, n_steps;
    int rows; /* as begin was told */
    int64_t left_row, left_step;
    int64_t right_step, right_second; /* from the first to the second right tile of a step */
    int64_t out_row;                  /* bytes from row to row of what comes out */
    bool add;                         /* to what is there; otherwise bias is */
    bool stream; /* what comes out goes past the caches: then its rows are multiples of 64 bytes apart */
    dtype_t out_dtype; /* DTYPE_F32; DTYPE_BF16, without `add` */
} amx_product_t;

/* Where one or two left tiles meet one or two right ones: out[i] is left[i]'s, [rows][16 · n_right] numbers.
 */
typedef struct amx_place {
    const void *left[2]; /* the second may be NULL */
    const void *right;
    int n_right;       /* 1, 2 */
    const float *bias; /* [16 · n_right] */
    void *out[2];
} amx_place_t;

typedef struct amx {
    /* Between them a thread multiplies; rows: of the left tiles and of what comes out, 1 to 16. */
    void (*begin)(int rows);
    void (*end)(void);
    void (*multiply)(const amx_product_t *product, const amx_place_t *place);

    /* to[0 … n_padded) = from[0 … n), then zeros. */
    void (*pack_row)(const void *from, dtype_t dtype, int64_t n, int64_t n_padded, uint16_t *to);
    /* A right tile of 16 columns, each of n ≤ 32 values in one piece, `column` values apart; zeros behind. */
    void (*pack_columns)(const float *from, int64_t column, int64_t n, uint16_t *to);
    /* Right tiles of n_rows rows, an even number, and of columns first … first + n_columns, at most 16, zeros
     * behind: pairs follow each other from tile to tile. */
    void (*pack_pairs)(const void *const *rows, dtype_t dtype, int64_t n_rows, int64_t first,
                       int64_t n_columns, uint16_t *to);
    /* A left tile: the 16 columns from `first` on of 32 rows. */
    void (*pack_turned)(const void *const *rows, dtype_t dtype, int64_t first, uint16_t *to);
} amx_t;

/* NULL: this build, the CPU or Linux has none, or oneDNN may not use it. */
const amx_t *amx_here(void);

#endif
