/* Convolutions by hand-written tiles of vector registers, for the shapes of small networks where libraries
 * leave most of the machine idle: groups 1, dilation 1.
 *
 * Forward and backward-data have the batch in the vector lanes. Their tensors are transposed, [h][w][c][n]
 * with n rounded up to whole tiles: every load is a whole vector whatever the channels, every weight a
 * broadcast. Backward-weights sums over the batch and takes [n][h][w][c] as it is, with the lanes over the
 * channels of a row of taps, or over the outputs where there are few of those.
 *
 * One build of the tiles for each instruction set; results depend on which, not on the number of threads. */
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
    /* Forward's epilogue, where relu: y = max(y, 0), and of every pool_h × pool_w cells of it (side by side;
     * what is left over at the borders is dropped) the largest: [oh/pool_h][ow/pool_w][k][n]. A byte for each
     * says which cell it was, in row-major order, the first of equals, or DIRECT_OFF where all are ≤ 0. */
    bool relu;
    int pool_h, pool_w;
} direct_conv_t;

enum { DIRECT_OFF = 255 };

typedef struct direct_isa {
    const char *name;
    int n_tile; /* samples that are computed together: n is rounded up to whole tiles */
    /* xt: [h][w][c][n], weights as packed by direct_pack_forward, bias [k] or NULL. mask: with relu only. */
    void (*forward)(const direct_conv_t *conv, const float *xt, const float *weights, const float *bias,
                    float *yt, uint8_t *mask);
    /* dyt: [oh][ow][k][n], weights as packed by direct_pack_backward; writes dxt. */
    void (*backward_data)(const direct_conv_t *conv, const float *dyt, const float *weights, float *dxt);
    /* x: [n][h][w][c]; dy: [n][oh][ow][k], or with a mask, [n][oh/pool_h][ow/pool_w][k] as is dy then, what
     * `expand` makes of the two; dweight: [k][r][s][c]. */
    void (*backward_weights)(const direct_conv_t *conv, const float *x, const float *dy, const uint8_t *mask,
                             float *dweight, float *workspace);
    /* [n][m] → [m][n_padded], zeros in what is added; and [m][n_padded] → [n][m]. */
    void (*transpose)(const float *from, int64_t n, int64_t m, float *to);
    void (*transpose_back)(const float *from, int64_t n, int64_t m, float *to);
    void (*transpose_bytes_back)(const uint8_t *from, int64_t n, int64_t m, uint8_t *to);
    /* The epilogue by itself: y and mask (NULL: not wanted), as forward's but [n][…][k], from dense
     * [n][oh][ow][k]. y may be dense where windows have one cell. */
    void (*reduce)(const direct_conv_t *conv, const float *dense, float *y, uint8_t *mask);
    /* The gradient before the epilogue: dense [n][oh][ow][k], 0 but where the mask sends one of dy. */
    void (*expand)(const direct_conv_t *conv, const float *dy, const uint8_t *mask, float *dense);
} direct_isa_t;

/* conv2d with its epilogue as the tiles see it. */
direct_conv_t direct_conv_of(const op_desc_t *desc);

/* The best that this machine has. */
const direct_isa_t *direct_isa(void);
extern const direct_isa_t *const direct_avx512, *const direct_avx2; /* NULL where not built */
extern const direct_isa_t *const direct_base;

/* n rounded up to whole tiles. */
int64_t direct_padded(const direct_isa_t *isa, int64_t n);

/* Floats of packed weights of either kind, and of the workspace of backward_weights. */
int64_t direct_packed_size(const direct_conv_t *conv);
int64_t direct_workspace_size(const direct_conv_t *conv);
void direct_pack_forward(const direct_conv_t *conv, const float *weights, float *packed);
void direct_pack_backward(const direct_conv_t *conv, const float *weights, float *packed);

/* One image with its padding, for vectors that reach beyond the last value; sizes in floats. */
int64_t direct_image_size(const direct_conv_t *conv);
int64_t direct_dense_size(const direct_conv_t *conv);
void direct_pad_image(const direct_conv_t *conv, const float *image, float *padded);

/* Outputs that a tile has: the divisor of k, among those that the registers allow, with the least rest. */
int direct_block(int64_t k);

#endif
