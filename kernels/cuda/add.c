/* SPDX-License-Identifier: MIT */
/* Binds elementwise addition to the operator table; its gradient is a copy, skipped where dx already is
 * dy. */
#include "kernels/cuda/cuda.h"
#include "kernels/cuda/kernels.h"

static err_t cuda_add_forward(const op_t *op, const op_args_t *args)
{
    E_CUDA(add_forward(args->x[0], args->x[1], args->y, shape_count(op->desc.y), cuda_stream()), "add");
    return ERR_OK;
}

static err_t cuda_add_backward(const op_t *op, const op_args_t *args)
{
    size_t n_bytes = (size_t)shape_count(op->desc.y) * sizeof(float);
    for (int input = 0; input < 2; input++) {
        void *dx = args->dx[input];
        if (dx && dx != args->dy) TRY(cuda_memory.copy(dx, args->dy, n_bytes));
    }
    return ERR_OK;
}

const op_kernel_t cuda_add = {.forward = cuda_add_forward, .backward = cuda_add_backward};
