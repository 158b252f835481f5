/* SPDX-License-Identifier: MIT */
/* Binds ReLU, where it is not fused, to the operator table. */
#include "kernels/cuda/cuda.h"
#include "kernels/cuda/kernels.h"

static err_t cuda_relu_forward(const op_t *op, const op_args_t *args)
{
    bool narrow = args->x[0].dtype == DTYPE_BF16;
    E_CUDA(relu_forward(args->x[0].data, args->y[0].data, shape_count(op->desc.y[0]), narrow, cuda_stream()),
           "relu");
    return ERR_OK;
}

static err_t cuda_relu_backward(const op_t *op, const op_args_t *args)
{
    bool narrow = args->dy[0].dtype == DTYPE_BF16;
    if (!args->dx[0].data) return ERR_OK;
    E_CUDA(relu_backward(args->y[0].data, args->dy[0].data, args->dx[0].data, shape_count(op->desc.y[0]),
                         narrow, cuda_stream()),
           "relu, backward");
    return ERR_OK;
}

const op_kernel_t cuda_relu = {.forward = cuda_relu_forward, .backward = cuda_relu_backward, .bf16 = true};
