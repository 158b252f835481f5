/* SPDX-License-Identifier: MIT */
/* Binds elementwise addition to the operator table; its gradient is a copy, skipped where dx already is
 * dy. */
#include "kernels/cuda/cuda.h"
#include "kernels/cuda/kernels_step.h"

static err_t cuda_add_forward(const op_t *op, const op_args_t *args)
{
    E_CUDA(elementwise_add("add", args->x[0].data, args->x[1].data, args->y[0].data,
                           shape_count(op->desc.y[0]), args->y[0].dtype == DTYPE_BF16, cuda_stream()),
           "add");
    return ERR_OK;
}

static err_t cuda_add_backward(const op_t *op, const op_args_t *args)
{
    int64_t n = shape_count(op->desc.y[0]);
    const void *dy = args->dy[0].data;
    const dtype_t dtype = args->dy[0].dtype;
    for (int input = 0; input < 2; input++) {
        void *dx = args->dx[input].data;
        if (dx && args->accumulate_dx[input])
            TRY(cuda_accumulate(dx, dy, n, dtype));
        else if (dx && dx != dy)
            TRY(cuda_memory.copy(dx, dy, (size_t)n * dtype_size(dtype)));
    }
    return ERR_OK;
}

const op_kernel_t cuda_add = {
    .forward = cuda_add_forward, .backward = cuda_add_backward, .accumulates = true, .bf16 = true};
