/* SPDX-License-Identifier: MIT */
/* Convolution algorithms on the GPU, which compute linear layers too: conv2d.c lists them and picks one; each
 * computes one pass with its epilogue. To add one: a conv_impl_t, declared here, and a row in conv2d.c. */
#ifndef KERNELS_CUDA_CONV_CONV_H
#define KERNELS_CUDA_CONV_CONV_H

#include "kernels/cuda/cuda.h"
#include "kernels/cuda/kernels_product.h"

/* Attributes of a convolution of single pixels: a product. */
static inline conv2d_attr_t conv_pointwise(int64_t out_channels)
{
    return (conv2d_attr_t){.out_channels = out_channels,
                           .kernel_h = 1,
                           .kernel_w = 1,
                           .stride_h = 1,
                           .stride_w = 1,
                           .dilation_h = 1,
                           .dilation_w = 1,
                           .groups = 1};
}

/* One pass of one operator. Both descriptions outlive every plan made for it. */
typedef struct conv_problem {
    const op_desc_t *desc;     /* as a convolution */
    const op_desc_t *operator; /* for messages: the same, or the linear layer */
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
int conv_list(const op_desc_t *operator, const op_desc_t * desc, op_pass_t pass, bool training,
              const char *only, const char **names, int max);

/* Geometry of a description whose sizes conv2d.c has checked. */
conv_shape_t conv_shape_of(const op_desc_t *desc);
/* The same of n samples, as input of an epilogue. */
cells_t conv_cells_of(const op_desc_t *desc, int64_t n);
/* For messages: "conv2d float32 n=64 …, forward, by NAME", with the name of the variant. */
enum { CONV_TEXT = OP_KEY_MAX + 64 };
void conv_spell(const conv_problem_t *problem, const conv_impl_t *impl, char out[CONV_TEXT]);

#endif
