/* SPDX-License-Identifier: MIT */
/* A pass of a convolution as matrix products on cuBLASLt: which products, of which operands, in which chunks.
 * Or by cuDNN, which takes the place of the product and reads the tensors instead of windows. gemm_plan.c
 * prepares it, gemm.c runs it. */
#ifndef KERNELS_CUDA_CONV_GEMM_PLAN_H
#define KERNELS_CUDA_CONV_GEMM_PLAN_H

#include "kernels/cuda/chunk.h"
#include "kernels/cuda/conv/conv.h"
#include "kernels/cuda/dnn.h"
#include "kernels/cuda/gemm.h"

/* The product of each pass:
 *
 *   forward           windows of x · weightᵀ = y
 *   backward_data     windows of dy · transposed weightᵀ = dx: each pixel of x gathers the pixels of dy that
 *                     it was read for, which is a convolution with negative padding and dilation; with a
 *                     stride they have no fixed places, then dy · weight = columns, which are summed to dx
 *                     (`folds`)
 *   backward_weights  dyᵀ · windows of x = dweight
 *
 * Windows of single pixels are the tensor itself, if it is stored in the type of products (`in_place`).
 * Otherwise they are rows of `pitch` values: if their number is not a multiple of 8, tensor cores would have to
 * read them slowly, so the depth of the product is filled up with zeros (`pads`).
 *
 * Workspace, each part only if needed: weight as the product reads it; parts of the bias gradient; cuDNN's
 * gradient of the weight, and the same widened; for a chunk, windows, and products before an epilogue or dy
 * after it; the library's workspace. */
typedef struct gemm_plan {
    conv_shape_t shape, windows; /* of the convolution; of the windows */
    int64_t n_window, pitch;     /* values in a pixel's window, all groups; in a row */
    bool by_cudnn;
    bool pointwise; /* also cuDNN's: a pixel is its window */
    bool in_place, folds, pads;
    bool rounds, relu, bias, x_bf16, y_bf16;
    bool arranges;  /* the weight is copied */
    bool apart;     /* forward: an epilogue follows the product */
    bool converts;  /* backward: dy is not what the product reads */
    int64_t n_cell; /* bytes of a pixel's products or dy in the workspace; 0: none */
    chunk_t chunk;
    gemm_t *gemm[2]; /* for full chunks and for the last one */
    dnn_t *dnn[2];   /* the same, by cuDNN */
    int n_parts;
    size_t parts, gradient, wide, columns, cells, products; /* offsets in the workspace */
} gemm_plan_t;

enum { GEMM_RESIDENT_VARIANTS = 4 };

/* conv_impl_t's functions. */
int gemm_plan_count(const conv_impl_t *self, const conv_problem_t *problem);
err_t gemm_plan_new(const conv_impl_t *self, const conv_problem_t *problem, void **out,
                    size_t *n_workspace_bytes);
void gemm_plan_free(void **plan);

bool gemm_plan_is_pointwise(const op_desc_t *desc);

#endif
