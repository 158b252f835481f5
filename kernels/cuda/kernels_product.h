/* SPDX-License-Identifier: MIT */
/* Kernels around the products of convolutions and linear layers, and in place of them; conventions as in
 * kernels.h. */
#ifndef KERNELS_CUDA_KERNELS_PRODUCT_H
#define KERNELS_CUDA_KERNELS_PRODUCT_H

#include <cuda_runtime_api.h>
#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* conv2d.cu: the windows of a convolution as rows of a matrix.
 *
 * Geometry of a convolution; oh and ow are before an epilogue. As the geometry of windows it also describes
 * those of dy that the gradient of x reads, with negative padding and dilation (conv/gemm_plan.h). */
typedef struct conv_shape {
    int64_t n;
    int h, w, c, oh, ow, k;
    int kernel_h, kernel_w, stride_h, stride_w, pad_h, pad_w, dilation_h, dilation_w, groups;
} conv_shape_t;
/* Elements of the pixels that some window reads, for traffic_count. */
static inline int64_t conv_elements_read(const conv_shape_t *s)
{
    int64_t rows = (int64_t)s->oh * s->kernel_h, columns = (int64_t)s->ow * s->kernel_w;
    return s->n * (rows < s->h ? rows : s->h) * (columns < s->w ? columns : s->w) * s->c;
}
/* columns [n·oh·ow][pitch]: [groups][kernel_h][kernel_w][c/groups], then zeros; at most INT32_MAX elements.
 *
 *   from_bf16  x is stored as bfloat16, only with `rounds`
 *   rounds     columns are bfloat16, otherwise float32 */
typedef struct columns_args {
    conv_shape_t shape;
    int64_t pitch;
    const void *from;
    void *columns;
    bool from_bf16, rounds;
} columns_args_t;
cudaError_t im2col(const columns_args_t *args, cudaStream_t stream);
/* dx: each element is the sum over its readers, in a fixed order; with `adds`, that is added to it. columns
 * has no padding. */
cudaError_t col2im(const conv_shape_t *shape, const float *columns, void *dx, bool dx_bf16, bool adds,
                   cudaStream_t stream);
/* A weight [groups][filters][taps][channels] as float32, or rounded to bfloat16, in rows of `pitch`:
 * [groups][filters] rows of [taps][channels], or transposed [groups][channels] of [taps][filters]; then
 * zeros. */
typedef struct weight_args {
    const float *from;
    void *to;
    int groups, filters, n_taps, channels; /* filters, channels: per group */
    int64_t pitch;
    bool transposed, rounds;
} weight_args_t;
cudaError_t arrange_weight(const weight_args_t *args, cudaStream_t stream);

/* epilogue.cu: work of conv2d and linear around their products. n·height·width and the elements of a sample
 * are at most INT32_MAX. */
enum { EPILOGUE_OFF = 255 }; /* mask value: ReLU gave 0 */
/* The result of a product, [n, height, width, channels], and the windows whose maximum is y (1 × 1: single
 * pixels). The image of a linear layer has one pixel. */
typedef struct cells {
    int64_t n;
    int height, width, channels;
    int pool_h, pool_w;
} cells_t;
/* y: the maximum of max(product + bias, 0) over each window.
 * mask: NULL, or for each y the index of its pixel in the window, in row-major order, or EPILOGUE_OFF. */
typedef struct epilogue_args {
    cells_t cells;
    bool relu;
    const void *product; /* float32, or bfloat16 with product_bf16, only with y_bf16 */
    const float *bias;   /* may be NULL */
    void *y;             /* may be the product if windows are single pixels */
    bool y_bf16, product_bf16;
    uint8_t *mask;
} epilogue_args_t;
cudaError_t epilogue_forward(const epilogue_args_t *args, cudaStream_t stream);
/* dense, dense_bf16: for every pixel of the product, dy where the mask routes it, else 0; at most one of the
 * two.
 * sums: NULL, or Σ dy per channel over elements that are not off; by way of parts [n_parts][channels] if
 * there are several.
 * mask: NULL if windows are single pixels, all on. */
typedef struct gradient_args {
    cells_t cells;
    const void *dy;
    const uint8_t *mask;
    bool dy_bf16;
    bool rounds; /* round dy to bfloat16 first */
    float *dense;
    uint16_t *dense_bf16;
    float *sums, *parts;
    int n_parts; /* ≥ 1 */
} gradient_args_t;
cudaError_t epilogue_backward(const gradient_args_t *args, cudaStream_t stream);
/* Column sums of parts [n_parts, n_columns]: the first n_first go to `first`, the others to `rest`. */
typedef struct sums_args {
    const float *parts;
    int64_t n_parts, n_columns, n_first;
    float *first, *rest;
} sums_args_t;
cudaError_t epilogue_sums(const sums_args_t *args, cudaStream_t stream);

/* implicit.cu: convolution without a buffer of windows. In forward a pooling window has 1, 2 or 4 pixels.
 * Counts of pixels, of weights per filter and of readers per pixel are at most 2^30, padded images
 * included. */
typedef enum implicit_tile { IMPLICIT_NARROW, IMPLICIT_SMALL, IMPLICIT_WIDE } implicit_tile_t;
typedef struct implicit_args {
    conv_shape_t shape;
    int pool_h, pool_w;  /* 1: no pooling */
    bool relu, rounds;   /* rounds: round operands to bfloat16 when reading */
    bool x_bf16, y_bf16; /* storage of x and dx, and of y and dy */
    bool adds;           /* backward_data: to dx */
    const void *x, *dy;
    const float *weight, *bias;
    const uint8_t *mask; /* backward: mask of the epilogue; NULL: dy is already before it */
    void *y, *dx;
    float *dweight, *dbias;
    uint8_t *mask_out; /* forward: NULL, or as epilogue_args_t.mask */
    float *parts;      /* backward_weights with n_parts > 1: [n_parts][weights, then bias if any] */
    int n_parts;
} implicit_args_t;
cudaError_t implicit_forward(const implicit_args_t *args, implicit_tile_t tile, cudaStream_t stream);
cudaError_t implicit_backward_data(const implicit_args_t *args, implicit_tile_t tile, cudaStream_t stream);
cudaError_t implicit_backward_weights(const implicit_args_t *args, implicit_tile_t tile, cudaStream_t stream);

/* mma.cu: convolution of bfloat16 on tensor cores without a buffer of windows; groups = 1. Tensors and
 * weights are 16-byte aligned, c and n_columns multiples of 8; a padded image and a weight have at most 2^30
 * values, images and results together as many pixels. */
/* Images as windows read them: c values per tap; values between samples, rows and pixels. */
typedef struct mma_image {
    const uint16_t *from;
    int h, w, c;
    int64_t sample;
    int row, pixel;
} mma_image_t;
/* Pixels of the result with the same taps: all, or of the gradient of x those with the same remainders by the
 * strides. There may be no taps. */
typedef struct mma_class {
    int rows, columns;
    int first_h, first_w;           /* of the image: first tap of the first pixel */
    int taps_h, taps_w;             /* their number */
    int step_h, step_w;             /* between them in the image */
    int weight, weight_h, weight_w; /* in a row of the weight: the first and steps, in values */
    int64_t y;                      /* first pixel, in values */
} mma_class_t;
enum { MMA_CLASSES = 16 };
typedef struct mma_args {
    int64_t n;
    mma_image_t image; /* x; for the gradient of x, dy */
    int stride_h, stride_w;
    mma_class_t classes[MMA_CLASSES]; /* weights: one */
    int n_classes;
    int n_columns, n_depth; /* weight [n_columns][n_depth] */
    bool wide;              /* tiles of 128 by 128 values, else by 64 */
    /* gather: y = windows · weightᵀ + bias (may be NULL), or y += windows · weightᵀ */
    const uint16_t *weight;
    const float *bias;
    void *y;
    bool y_bf16, adds;
    int64_t y_sample, y_row, y_pixel; /* values between samples, and between rows and pixels of a class */
    /* weights: dweight = dyᵀ · windows, pixels summed in n_parts parts [n_columns][values]. If `filled`,
     * windows are rows of kernel_w pixels of so many values, of which dweight has the first `channels`. */
    const uint16_t *dy; /* [n][rows][columns][n_columns] */
    float *dweight, *parts;
    int n_parts, filled, kernel_w, channels;
} mma_args_t;
cudaError_t mma_gather(const char *name, const mma_args_t *args, cudaStream_t stream);
cudaError_t mma_weights(const mma_args_t *args, cudaStream_t stream);

#ifdef __cplusplus
}
#endif

#endif
