/* Winograd's minimal filtering F(4×4, 3×3) on NHWC pictures: the transforms between tiles of pictures and 36
 * matrices, one for each point of a transformed tile, whose products a matrix product does (Lavin & Gray,
 * "Fast Algorithms for Convolutional Neural Networks", 2016; points 0, ±1, ±2, ∞). A tile is 4×4 cells of the
 * convolution's output, for which 6×6 of its input are read. A quarter of the multiply-adds remains; rounding
 * errors grow about fourfold.
 *
 * Matrices are [36][rows][channels], `plane` floats apart. Channels are multiples of WINOGRAD_LANES. Not
 * collective. */
#ifndef KERNELS_CPU_WINOGRAD_H
#define KERNELS_CPU_WINOGRAD_H

#include <stdint.h>

enum { WINOGRAD_LANES = 16, WINOGRAD_OUT = 4, WINOGRAD_IN = 6, WINOGRAD_POINTS = 36, WINOGRAD_TAPS = 9 };

/* Pictures [n, h, w, channels] that are cut into tiles: tile (i, j) begins `pad` cells above and left of cell
 * (4i, 4j), and cells outside the picture are 0. Tiles are counted row by row, picture by picture. */
typedef struct winograd_grid {
    int64_t h, w, channels, pad;
    int64_t tile_rows, tile_columns; /* of a picture */
} winograd_grid_t;

/* Tiles [first, first + count) of x to matrices: Bᵀ d B of 6×6 cells, or A e Aᵀ of 4×4 (gradients of
 * outputs). zeros: as many as there are channels. */
void winograd_take_inputs(const winograd_grid_t *grid, const float *x, const float *zeros, int64_t first,
                          int64_t count, float *matrices, int64_t plane);
void winograd_take_outputs(const winograd_grid_t *grid, const float *dy, const float *zeros, int64_t first,
                           int64_t count, float *matrices, int64_t plane);
/* Back: Aᵀ m A, where the tile's cells are inside the picture, plus bias unless it is NULL. */
void winograd_put_outputs(const winograd_grid_t *grid, const float *matrices, int64_t plane,
                          const float *bias, int64_t first, int64_t count, float *y);

/* weight [k, 3, 3, c] to matrices [36][k][c]: G g Gᵀ; `turned`: of filters turned by 180°. */
void winograd_take_filters(const float *weight, int64_t k, int64_t c, int turned, float *matrices,
                           int64_t plane);
/* What is left of a gradient in matrices: dweight = Gᵀ m G. */
void winograd_put_filters(const float *matrices, int64_t plane, int64_t k, int64_t c, float *dweight);

#endif
