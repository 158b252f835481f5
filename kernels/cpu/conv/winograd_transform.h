/* SPDX-License-Identifier: MIT */
/* Winograd's minimal filtering F(4×4, 3×3) on NHWC images: the transforms between image tiles and 36
 * matrices, one for each point of a transformed tile; between the transforms there are 36 matrix products
 * (Lavin & Gray, "Fast Algorithms for Convolutional Neural Networks", 2016; points 0, ±5/8, ±3/2, ∞). A tile is
 * 4×4 pixels of the convolution's output and reads 6×6 of its input. A quarter of the multiply-adds remains;
 * rounding errors about double.
 *
 * Channels are multiples of WINOGRAD_LANES. Not collective. */
#ifndef KERNELS_CPU_CONV_WINOGRAD_TRANSFORM_H
#define KERNELS_CPU_CONV_WINOGRAD_TRANSFORM_H

#include <stdbool.h>
#include <stdint.h>

enum { WINOGRAD_LANES = 16, WINOGRAD_OUT = 4, WINOGRAD_IN = 6, WINOGRAD_POINTS = 36, WINOGRAD_TAPS = 9 };

/* Tiles of images [n, h, w, pitch], of which the first `channels` channels are used: rectangles of tile_rows ×
 * tile_columns tiles in each image. Tile (i, j) begins `pad` pixels above and left of pixel (top + 4i, left + 4j), and
 * pixels outside the image are 0. Tiles are counted row by row, image by image.
 *
 * Half tiles are 2 pixels high or wide, and read 4: F(2, 3) with the points 0, ±5/8 and ∞, whose products are those of
 * whole tiles at these points but for factors. The rows of matrices of the points ±3/2 are then not used. */
typedef struct winograd_grid {
    int64_t h, w, channels, pitch, pad;
    int64_t top, left, tile_rows, tile_columns; /* per image */
    bool half_h, half_w;
} winograd_grid_t;

/* Whether point i of WINOGRAD_POINTS is used. */
bool winograd_uses(const winograd_grid_t *grid, int point);

/* 36 matrices of one row per tile, `plane` floats apart. Columns come in panels of 1 << panel_bits, `panel` floats apart,
 * in which rows are `row` floats apart; the bits of WINOGRAD_ONE_PANEL: the columns of a row are adjacent. */
enum { WINOGRAD_ONE_PANEL = 62 };
typedef struct winograd_matrices {
    float *data;
    int64_t plane, row, panel;
    int panel_bits;
} winograd_matrices_t;

/* The same without the first rows. */
static inline winograd_matrices_t winograd_rows_from(winograd_matrices_t m, int64_t first)
{
    m.data += first * m.row;
    return m;
}

/* Tiles [first, first + count) of x to the first rows of matrices: Bᵀ d B of 6×6 pixels, or A e Aᵀ of 4×4 (gradients of
 * outputs). zeros [channels] is read for pixels outside the image. By the calling thread. */
void winograd_take_inputs(const winograd_grid_t *grid, const float *x, const float *zeros, int64_t first,
                          int64_t count, winograd_matrices_t out);
void winograd_take_outputs(const winograd_grid_t *grid, const float *dy, const float *zeros, int64_t first,
                           int64_t count, winograd_matrices_t out);
/* The inverse: Aᵀ m A for the tile's pixels inside the image, plus bias unless it is NULL; with `add`, is added to y,
 * with `relu`, max(…, 0), which NaN passes. */
typedef struct winograd_output {
    const float *bias;
    bool relu, add;
} winograd_output_t;
void winograd_put_outputs(const winograd_grid_t *grid, winograd_matrices_t in, const winograd_output_t *how,
                          int64_t first, int64_t count, float *y);

/* Filters of 3×3 taps, a matrix [rows][columns] per tap: row r of tap i begins at taps + i·tap + r·row. */
typedef struct winograd_filters {
    int64_t rows, columns, tap, row;
} winograd_filters_t;

/* To and from matrices of which each is [panels][rows][DIRECT_PANEL] (direct.h).
 *
 *   take  G g Gᵀ; `turned`: of filters rotated by 180°
 *   put   gradients of filters, Gᵀ m G, which with `add` are added */
void winograd_take_filters(const winograd_filters_t *filters, const float *taps, bool turned,
                           winograd_matrices_t out);
void winograd_put_filters(const winograd_filters_t *filters, winograd_matrices_t in, bool add, float *taps);

#endif
