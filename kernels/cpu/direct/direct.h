/* SPDX-License-Identifier: MIT */
/* Convolutions by hand-written tiles of vector registers, for the shapes of small networks where libraries
 * leave most of the machine idle: groups 1, dilation 1.
 *
 * Forward and backward data have the batch in the vector lanes. Their tensors are transposed to [h][w][c][n],
 * n rounded up to whole tiles: every load is a full vector whatever the number of channels, every weight a
 * broadcast. Backward weights sums over the batch and takes [n][h][w][c] as it is, with the lanes over the
 * channels of a row of taps, or over the outputs if there are few of those.
 *
 * The tiles are built once per instruction set; results depend on the set, not on the number of threads. */
#ifndef KERNELS_CPU_DIRECT_DIRECT_H
#define KERNELS_CPU_DIRECT_DIRECT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "compute/ops/op.h"

typedef struct direct_conv {
    int64_t n, h, w, c; /* input */
    int64_t oh, ow, k;  /* output */
    int r, s;           /* kernel */
    int stride_h, stride_w;
    int pad_h, pad_w;
    /* Forward's epilogue if relu: y = max(y, 0), then the largest of each pool_h × pool_w window (windows do
     * not overlap; a remainder at the borders is dropped), [oh/pool_h][ow/pool_w][k][n]. The mask has a byte
     * per result: which pixel of the window it was, in row-major order, the first of equals, or DIRECT_OFF if
     * all are ≤ 0. */
    bool relu;
    int pool_h, pool_w;
} direct_conv_t;

enum { DIRECT_OFF = 255 };

/* c = a · b, or with `add` c += a · b. Sums are over the steps in order, each by a fused multiply-add where the
 * instruction set has it.
 *
 * Columns of b come in panels of DIRECT_PANEL, of which the last may have 16: step x of panel j begins at b +
 * j · b_panel + x · b_step. Of a either the steps of a row are adjacent, and rows a_row apart; or, with a_row 0, its rows
 * come in panels of DIRECT_TURNED_PANEL: step x of panel j begins at a + j · a_panel + x · a_step. */
enum { DIRECT_PANEL = 32, DIRECT_TURNED_PANEL = 16 };
typedef struct direct_product {
    const float *a, *b;
    float *c;                           /* rows c_row apart */
    int64_t n_rows, n_columns, n_steps; /* n_columns: a multiple of 16 */
    int64_t a_row, a_panel, a_step, b_panel, b_step, c_row;
    bool add;
} direct_product_t;

typedef struct direct_isa {
    const char *name;
    int n_tile; /* samples computed together: n is rounded up to whole tiles */
    /* xt       [h][w][c][n]
     * weights  packed by direct_pack_forward
     * bias     [k] or NULL
     * mask     only with relu */
    void (*forward)(const direct_conv_t *conv, const float *xt, const float *weights, const float *bias,
                    float *yt, uint8_t *mask);
    /* dyt      [oh][ow][k][n]
     * weights  packed by direct_pack_backward
     * dxt      [h][w][c][n], written */
    void (*backward_data)(const direct_conv_t *conv, const float *dyt, const float *weights, float *dxt);
    /* x        [n][h][w][c]
     * dy       [n][oh][ow][k]; with a mask [n][oh/pool_h][ow/pool_w][k], as is the mask: expanded first
     * dweight  [k][r][s][c], written */
    void (*backward_weights)(const direct_conv_t *conv, const float *x, const float *dy, const uint8_t *mask,
                             float *dweight, float *workspace);
    /* [n][m] → [m][n_padded], zero-padded; and back, [m][n_padded] → [n][m]. */
    void (*transpose)(const float *from, int64_t n, int64_t m, float *to);
    void (*transpose_back)(const float *from, int64_t n, int64_t m, float *to);
    void (*transpose_bytes_back)(const uint8_t *from, int64_t n, int64_t m, uint8_t *to);
    /* The epilogue alone, as forward's but on [n][…][k], from dense [n][oh][ow][k]. mask may be NULL. y may
     * be dense if windows have one pixel. */
    void (*reduce)(const direct_conv_t *conv, const float *dense, float *y, uint8_t *mask);
    /* The gradient before the epilogue: dense [n][oh][ow][k], 0 except where the mask routes an element of
     * dy. */
    void (*expand)(const direct_conv_t *conv, const float *dy, const uint8_t *mask, float *dense);
    void (*product)(const direct_product_t *product);
} direct_isa_t;

/* The geometry of a conv2d and its epilogue. */
direct_conv_t direct_conv_of(const op_desc_t *desc);

/* The widest instruction set that this machine has and DPTRAIN_MAX_ISA allows. */
const direct_isa_t *direct_isa(void);
extern const direct_isa_t *const direct_avx512, *const direct_avx2; /* NULL where not built */
extern const direct_isa_t *const direct_base;

/* n rounded up to whole tiles. */
int64_t direct_padded(const direct_isa_t *isa, int64_t n);

/* Floats of packed weights (either kind), and of the workspace of backward_weights. */
int64_t direct_packed_size(const direct_conv_t *conv);
int64_t direct_workspace_size(const direct_conv_t *conv);
void direct_pack_forward(const direct_conv_t *conv, const float *weights, float *packed);
void direct_pack_backward(const direct_conv_t *conv, const float *weights, float *packed);

/* One image with its padding, and room for vector loads that reach beyond the last value; sizes in floats. */
int64_t direct_image_size(const direct_conv_t *conv);
int64_t direct_dense_size(const direct_conv_t *conv);
void direct_pad_image(const direct_conv_t *conv, const float *image, float *padded);

/* Outputs per tile: among the block sizes that fit the registers, the one that wastes the fewest outputs of
 * k. */
int direct_block(int64_t k);

#endif
