/* SPDX-License-Identifier: MIT */
/* Binds the addition of an enlarged image to the operator table; backward is one pass over dy for both
 * gradients. */
#include "kernels/cuda/cuda.h"
#include "kernels/cuda/kernels_detection.h"

/* dtype: of all tensors of the call, which may be copies. */
static upsample_t upsample_of(const op_t *op, dtype_t dtype)
{
    const int64_t *x = op->desc.x[1].dim;
    return (upsample_t){x[0] * x[1], x[2], x[3], dtype == DTYPE_BF16};
}

static err_t cuda_upsample_add_forward(const op_t *op, const op_args_t *args)
{
    upsample_t u = upsample_of(op, args->y[0].dtype);
    E_CUDA(upsample_add_forward(&u, args->x[0].data, args->x[1].data, args->y[0].data, cuda_stream()),
           "upsample_add");
    return ERR_OK;
}

static err_t cuda_upsample_add_backward(const op_t *op, const op_args_t *args)
{
    upsample_t u = upsample_of(op, args->dy[0].dtype);
    const tensor_t *dy = &args->dy[0];
    void *fine = args->dx[0].data, *coarse = args->dx[1].data;
    const bool adds = fine && args->accumulate_dx[0];
    if (adds) TRY(cuda_accumulate(fine, dy->data, shape_count(dy->shape), dy->dtype));
    if (adds || fine == dy->data) fine = NULL;
    if (!fine && !coarse) return ERR_OK;
    E_CUDA(upsample_add_backward(&u, dy->data, fine, coarse, args->accumulate_dx[1], cuda_stream()),
           "upsample_add, backward");
    return ERR_OK;
}

const op_kernel_t cuda_upsample_add = {.forward = cuda_upsample_add_forward,
                                       .backward = cuda_upsample_add_backward,
                                       .accumulates = true,
                                       .bf16 = true};
