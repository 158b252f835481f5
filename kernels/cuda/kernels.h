/* The kernels as C sees them: one launcher each, defined in the .cu file named above it. Buffers are device
 * memory; a launcher returns the error of the launch and does not wait. */
#ifndef KERNELS_CUDA_KERNELS_H
#define KERNELS_CUDA_KERNELS_H

#include <cuda_runtime_api.h>
#include <stdbool.h>
#include <stdint.h>

#include "tensor/affine.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A number that changes from step to step: the value, or, in a recorded step, where it will be. */
typedef struct step_u64 {
    uint64_t value;
    const uint64_t *at;
} step_u64_t;
typedef struct step_f32 {
    float value;
    const float *at;
} step_f32_t;
typedef struct step_f64 {
    double value;
    const double *at;
} step_f64_t;

/* relu.cu */
cudaError_t relu_forward(const float *x, float *y, int64_t n, cudaStream_t stream);
cudaError_t relu_backward(const float *y, const float *dy, float *dx, int64_t n, cudaStream_t stream);

/* add.cu */
cudaError_t add_forward(const float *a, const float *b, float *y, int64_t n, cudaStream_t stream);

/* batch_norm.cu. A row is all channels of one cell. With dy it goes backward. */
typedef struct norm {
    int64_t n_c, n_groups, n_rows, group_rows; /* the last group may have fewer rows */
    int n_sum_parts, n_apply_parts;            /* blocks that share a group's rows */
    bool shared;                               /* the sums go through the host before they are used */
    double momentum, epsilon;
    const float *x, *dy, *gamma, *beta;
    float *y, *dx, *dgamma, *dbeta, *running_mean, *running_variance;
    double *partial;   /* [groups, c, parts, 2] */
    double *sums;      /* [groups, 2, c], and of one group the number of its rows */
    float *moments;    /* [groups, 2, c]: mean, 1/std; NULL: y with the running values */
    float *correction; /* [groups, 2, c], backward: taken from dy as it is, and times x − mean */
} norm_t;
/* The sums of each group: of x and x², or of dy and dy · (x − mean). Of one group that is not shared also what
 * batch_norm_finish does. */
cudaError_t batch_norm_sum(const norm_t *n, cudaStream_t stream);
/* From the sums: moments and running values, or correction, dgamma and dbeta (of one group they are known
 * since batch_norm_sum, from our rows alone). */
cudaError_t batch_norm_finish(const norm_t *n, cudaStream_t stream);
/* y, or dx */
cudaError_t batch_norm_apply(const norm_t *n, cudaStream_t stream);

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

/* dropout.cu. mask: as dropout.c says; may be NULL forward. Both may be in place. */
typedef struct dropout {
    int64_t n_samples, n_sample; /* n_sample: elements of one */
    uint64_t threshold, key;     /* kept: words below the threshold */
    uint32_t layer;
    float scale; /* of what is kept */
    step_u64_t step, first_sample;
} dropout_t;
cudaError_t dropout_forward(const dropout_t *d, const float *x, float *y, uint8_t *mask, cudaStream_t stream);
cudaError_t dropout_backward(const dropout_t *d, const float *dy, const uint8_t *mask, float *dx,
                             cudaStream_t stream);

/* elementwise.cu */
cudaError_t elementwise_accumulate(float *dst, const float *src, int64_t n, cudaStream_t stream);
cudaError_t elementwise_swap(float *a, float *b, int64_t n, cudaStream_t stream);
cudaError_t elementwise_narrow(const float *from, uint16_t *to, int64_t n, cudaStream_t stream);
cudaError_t elementwise_widen(const uint16_t *from, float *to, int64_t n, cudaStream_t stream);

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

/* optim.cu: optim_args_t of ops/backend.h, with what changes from step to step as it is found. */
typedef struct optim_range {
    float *weight;
    const float *gradient;
    float *state[2];
    float *average; /* NULL: none */
    int64_t n;
    step_f64_t lr, gradient_scale, average_decay, correction[2];
    double weight_decay, momentum, rho, beta[2], epsilon, trust_ratio;
    bool nesterov;
    const float *guard; /* nothing happens when it is not finite; NULL: no condition */
} optim_range_t;
cudaError_t optim_sgd(const optim_range_t *range, cudaStream_t stream);
cudaError_t optim_adadelta(const optim_range_t *range, cudaStream_t stream);
cudaError_t optim_adamw(const optim_range_t *range, cudaStream_t stream);
cudaError_t optim_lars(const optim_range_t *range, cudaStream_t stream);

/* pixels.cu: pixels_args_t of ops/backend.h. height × width < 2^31. */
typedef struct pixels_batch {
    const uint8_t *bytes;
    const affine_t *maps; /* NULL: as they are */
    int64_t n, height, width, channels;
    double mean, std;
    float *pixels;
} pixels_batch_t;
cudaError_t pixels_prepare(const pixels_batch_t *batch, cudaStream_t stream);

/* pool2d.cu */
typedef struct pool {
    int64_t n, n_c;
    int in_h, in_w, out_h, out_w, kernel_h, kernel_w, stride_h, stride_w, pad_h, pad_w;
    bool max;        /* or the average */
    bool wide_index; /* saved is int32_t, not uint8_t */
    void *saved;     /* of max, as pool2d.c says; may be NULL forward */
} pool_t;
cudaError_t pool2d_forward(const pool_t *p, const float *x, float *y, cudaStream_t stream);
cudaError_t pool2d_backward(const pool_t *p, const float *dy, float *dx, cudaStream_t stream);

/* reduce.cu: sum_squares keeps the sums of its blocks in partial[REDUCE_MAX_PARTIALS]; *out is on the device.
 */
enum { REDUCE_MAX_PARTIALS = 1024 };
cudaError_t reduce_sum_squares(const float *x, int64_t n, double *partial, double *out, cudaStream_t stream);
cudaError_t reduce_tally(const float *losses, const int32_t *predictions, const int32_t *labels, int64_t n,
                         float *totals, cudaStream_t stream);

/* softmax_xent.cu */
typedef struct softmax {
    int64_t n, n_class;
    double smoothing;
    const float *x;
    const int32_t *labels;
    float *loss;
    int32_t *predictions; /* may be NULL */
    float *saved;         /* softmax(x) − t, [n, classes]; may be NULL */
} softmax_t;
cudaError_t softmax_xent_forward(const softmax_t *s, cudaStream_t stream);
cudaError_t softmax_xent_backward(const float *saved, step_f32_t loss_scale, float *dx, int64_t n,
                                  cudaStream_t stream);

#ifdef __cplusplus
}
#endif

#endif
