/* SPDX-License-Identifier: MIT */
/* Plans and launches pooling. For max pooling the position of the winner in its window is saved, in one byte
 * if possible. */
#include "kernels/cuda/cuda.h"
#include "kernels/cuda/kernels.h"

/* For each output, the position of the winning pixel in its window is saved: row in the window · kernel_w +
 * column, in one byte if that suffices. */
static int64_t index_bytes(const pool2d_attr_t *a)
{
    return (int64_t)a->kernel_h * a->kernel_w <= 256 ? 1 : 4;
}

static err_t cuda_pool2d_plan(op_t *op)
{
    const pool2d_attr_t *a = &op->desc.attr.pool2d;
    bool keep = op->training && a->mode == POOL_MAX;
    op->n_saved_bytes = keep ? (size_t)(shape_count(op->desc.y[0]) * index_bytes(a)) : 0;
    return ERR_OK;
}

static pool_t pool_of(const op_t *op, const op_args_t *args)
{
    const pool2d_attr_t *a = &op->desc.attr.pool2d;
    const int64_t *in = op->desc.x[0].dim, *out = op->desc.y[0].dim;
    return (pool_t){.n = in[0],
                    .n_c = in[3],
                    .in_h = narrow_int(in[1]),
                    .in_w = narrow_int(in[2]),
                    .out_h = narrow_int(out[1]),
                    .out_w = narrow_int(out[2]),
                    .kernel_h = a->kernel_h,
                    .kernel_w = a->kernel_w,
                    .stride_h = a->stride_h,
                    .stride_w = a->stride_w,
                    .pad_h = a->pad_h,
                    .pad_w = a->pad_w,
                    .narrow = args->y[0].dtype == DTYPE_BF16,
                    .max = a->mode == POOL_MAX,
                    .wide_index = index_bytes(a) > 1,
                    .saved = op->n_saved_bytes ? args->saved : NULL};
}

static err_t cuda_pool2d_forward(const op_t *op, const op_args_t *args)
{
    pool_t p = pool_of(op, args);
    E_CUDA(pool2d_forward(&p, args->x[0].data, args->y[0].data, cuda_stream()), "pooling");
    return ERR_OK;
}

static err_t cuda_pool2d_backward(const op_t *op, const op_args_t *args)
{
    if (!args->dx[0].data) return ERR_OK;
    pool_t p = pool_of(op, args);
    E_CUDA(pool2d_backward(&p, args->dy[0].data, args->dx[0].data, cuda_stream()), "pooling, backward");
    return ERR_OK;
}

const op_kernel_t cuda_pool2d = {
    .plan = cuda_pool2d_plan, .forward = cuda_pool2d_forward, .backward = cuda_pool2d_backward, .bf16 = true};
