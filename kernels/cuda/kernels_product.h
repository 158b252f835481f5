/* What convolutions and linear layers are made of around their products, and in place of them; as kernels.h. */
#ifndef KERNELS_CUDA_KERNELS_PRODUCT_H
#define KERNELS_CUDA_KERNELS_PRODUCT_H

#include <cuda_runtime_api.h>
#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* conv2d.cu: a convolution's windows as rows of a matrix. */
/* A convolution's geometry; the output's is that before an epilogue. */
typedef struct conv_shape {
    int64_t n;
    int h, w, c, oh, ow, k;
    int kernel_h, kernel_w, stride_h, stride_w, pad_h, pad_w, dilation_h, dilation_w, groups;
} conv_shape_t;
/* columns [n·oh·ow][groups][kernel_h][kernel_w][c/groups], of float32, or rounded to bfloat16; at most INT32_MAX
 * of them. */
cudaError_t im2col(const conv_shape_t *shape, const float *x, float *columns, cudaStream_t stream);
cudaError_t im2col_bf16(const conv_shape_t *shape, const float *x, uint16_t *columns, cudaStream_t stream);
/* dx: each element the sum of what read it, in a fixed order. */
cudaError_t col2im(const conv_shape_t *shape, const float *columns, float *dx, cudaStream_t stream);

/* epilogue.cu: what conv2d and linear do around their products. n·height·width and what a sample has is at most
 * INT32_MAX. */
enum { EPILOGUE_OFF = 255 }; /* in a mask: ReLU gave 0 */
/* What a product gives, [n, height, width, channels], and the windows whose maximum is y (1 × 1: each cell). A
 * linear layer's picture has one cell. */
typedef struct cells {
    int64_t n;
    int height, width, channels;
    int pool_h, pool_w;
} cells_t;
/* y is the maximum of each window of max(product + bias, 0). mask: NULL, or of each y the number of the cell that
 * it was, in row-major order, or EPILOGUE_OFF. */
typedef struct epilogue_args {
    cells_t cells;
    bool relu;
    const float *product, *bias; /* bias: NULL for none */
    float *y;
    uint8_t *mask;
} epilogue_args_t;
cudaError_t epilogue_forward(const epilogue_args_t *args, cudaStream_t stream);
/* dense: dy where the mask says so, else 0, of every cell of the product; one of the two or none. sums: NULL, or
 * n_parts rows whose sum is Σ dy over those that are not off, per channel. mask NULL: windows are cells, all on. */
typedef struct gradient_args {
    cells_t cells;
    const float *dy;
    const uint8_t *mask;
    bool rounds; /* dy to bfloat16 before anything else */
    float *dense;
    uint16_t *dense_bf16;
    float *sums;
    int n_parts; /* ≥ 1 */
} gradient_args_t;
cudaError_t epilogue_backward(const gradient_args_t *args, cudaStream_t stream);
/* Sums of the columns of parts [n_parts, n_columns]: the first n_first to `first`, the others to `rest`. */
typedef struct sums_args {
    const float *parts;
    int64_t n_parts, n_columns, n_first;
    float *first, *rest;
} sums_args_t;
cudaError_t epilogue_sums(const sums_args_t *args, cudaStream_t stream);
/* Two arrays to bfloat16 in one launch; n of either may be 0. */
typedef struct round_args {
    const float *from[2];
    uint16_t *to[2];
    int64_t n[2];
} round_args_t;
cudaError_t round_operands(const round_args_t *args, cudaStream_t stream);

/* implicit.cu: convolution without a buffer of windows. A window of the epilogue has 1, 2 or 4 cells in forward.
 * Counts of pixels, of a filter's weights and of what reads a pixel are at most 2^30, padded pictures too. */
typedef enum implicit_tile { IMPLICIT_NARROW, IMPLICIT_SMALL, IMPLICIT_WIDE } implicit_tile_t;
typedef struct implicit_args {
    conv_shape_t shape;
    int pool_h, pool_w; /* 1: none */
    bool relu, rounds;  /* operands to bfloat16 where they are read */
    const float *x, *weight, *bias, *dy;
    const uint8_t *mask; /* backward: of an epilogue, or NULL: dy is what belongs to the products */
    float *y, *dx, *dweight, *dbias;
    uint8_t *mask_out; /* forward: NULL, or as epilogue_args_t.mask */
    float *parts;      /* backward_weights: [n_parts][weights, then filters with a bias], where n_parts > 1 */
    int n_parts;
} implicit_args_t;
cudaError_t implicit_forward(const implicit_args_t *args, implicit_tile_t tile, cudaStream_t stream);
cudaError_t implicit_backward_data(const implicit_args_t *args, implicit_tile_t tile, cudaStream_t stream);
cudaError_t implicit_backward_weights(const implicit_args_t *args, implicit_tile_t tile, cudaStream_t stream);

#ifdef __cplusplus
}
#endif

#endif
