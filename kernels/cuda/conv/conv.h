/* SPDX-License-Identifier: MIT */
/* Convolution algorithms on the GPU, which compute linear layers too: conv2d.c lists them and picks one; each
 * computes one pass with its epilogue. To add one: a conv_impl_t, declared here, and a row in conv2d.c. */
#ifndef KERNELS_CUDA_CONV_CONV_H
#define KERNELS_CUDA_CONV_CONV_H

#include <stdio.h>

#include "kernels/cuda/chunk.h"
#include "kernels/cuda/cuda.h"

#ifdef __cplusplus
extern "C" {
#endif

/* windows.cu: the windows of a convolution as rows of a matrix.
 *
 * Geometry of a convolution; oh and ow are before an epilogue. As the geometry of windows it also describes
 * those of dy that the gradient of x reads, with negative padding and dilation (gemm.c). */
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

/* Attributes of a convolution of single pixels: a product. */
static inline conv2d_attr_t conv_pointwise(int64_t out_channels)
{
    const conv2d_attr_t a = {.out_channels = out_channels,
                             .kernel_h = 1,
                             .kernel_w = 1,
                             .stride_h = 1,
                             .stride_w = 1,
                             .dilation_h = 1,
                             .dilation_w = 1,
                             .groups = 1};
    return a;
}

/* One pass of one operator. Both descriptions outlive every plan made for it. */
typedef struct conv_problem {
    const op_desc_t *desc;  /* as a convolution */
    const op_desc_t *layer; /* for messages: the same, or the linear layer */
    op_pass_t pass;
    bool training; /* backward follows */
    int variant;   /* of the algorithm */
} conv_problem_t;

typedef struct conv_call {
    const op_args_t *args;
    /* NULL, or dy of the whole batch before the epilogue, in the type of products; then the bias gradient is
     * already done. */
    const void *dense;
} conv_call_t;

/* With an epilogue, y and dy are after it, and args->saved has a byte per element of y as in
 * epilogue_args_t.mask: written by forward in training, read by backward. Backward data adds to dx where
 * args->accumulate_dx[0] says so. */
typedef struct conv_impl conv_impl_t;
struct conv_impl {
    const char *const *names; /* of its variants, up to NULL; stable: kept in caches and checkpoints */
    /* Number of variants that can be planned; 0: it does not fit. Ignores problem->variant. */
    int (*count)(const conv_impl_t *self, const conv_problem_t *problem);
    /* *out starts NULL; on an error nothing is left allocated. */
    err_t (*plan)(const conv_impl_t *self, const conv_problem_t *problem, void **out,
                  size_t *n_workspace_bytes);
    err_t (*run)(void *plan, const conv_problem_t *problem, const conv_call_t *call);
    void (*unplan)(void **plan); /* *plan may be NULL */
    /* For both backward passes at once; NULL: conv_call_t.dense is not used. Bytes of dense, 0 if the pass
     * reads dy as it is; and filling it, with the bias gradient, by the plan of the weights' pass. */
    size_t (*dense_bytes)(const void *plan);
    err_t (*densify)(const void *plan, const conv_problem_t *problem, const op_args_t *args, void *dense);
};

extern const conv_impl_t cuda_conv_gemm, cuda_conv_im2col, cuda_conv_im2col_l2, cuda_conv_implicit,
    cuda_conv_mma, cuda_conv_cudnn;

/* conv2d.c: op_kernel_t's functions for an operator that is the convolution `desc`. */
err_t conv_plan(op_t *op, const op_desc_t *desc);
void conv_unplan(op_t *op);
err_t conv_forward(const op_t *op, const op_args_t *args);
err_t conv_backward(const op_t *op, const op_args_t *args);
int conv_list(const op_desc_t *layer, const op_desc_t *desc, op_pass_t pass, bool training, const char *only,
              const char **names, int max);

/* Geometry of a description whose sizes conv2d.c has checked. */
conv_shape_t conv_shape_of(const op_desc_t *desc);
/* The same of n samples, as input of an epilogue. */
static inline cells_t conv_cells_of(const op_desc_t *desc, int64_t n)
{
    conv_shape_t s = conv_shape_of(desc);
    epilogue_t e = desc->attr.conv2d.epilogue;
    const cells_t cells = {n, s.oh, s.ow, s.k, e.pool_h ? e.pool_h : 1, e.pool_w ? e.pool_w : 1};
    return cells;
}
/* A product of pixels, without windows. */
static inline bool conv_is_pointwise(const op_desc_t *d)
{
    const conv2d_attr_t *a = &d->attr.conv2d;
    return a->kernel_h == 1 && a->kernel_w == 1 && a->stride_h == 1 && a->stride_w == 1 && a->pad_h == 0 &&
           a->pad_w == 0 && a->groups == 1;
}
/* For messages: "conv2d float32 n=64 …, forward, by NAME", with the name of the variant. */
enum { CONV_TEXT = OP_KEY_MAX + 64 };
static inline void conv_spell(const conv_problem_t *problem, const conv_impl_t *impl, char out[CONV_TEXT])
{
    char key[OP_KEY_MAX];
    op_key(problem->layer, key);
    snprintf(out, CONV_TEXT, "%s, %s, by %s", key, op_pass_names[problem->pass],
             impl->names[problem->variant]);
}

#ifdef __cplusplus
}
#endif

#endif
