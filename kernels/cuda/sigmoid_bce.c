/* SPDX-License-Identifier: MIT */
/* Binds the sigmoid binary cross-entropy to the operator table; nothing is saved, backward recomputes the
 * sigmoid. */
#include <stddef.h>

#include "kernels/cuda/cuda.h"
#include "kernels/cuda/kernels.h"

static err_t cuda_sigmoid_bce_forward(const op_t *op, const op_args_t *args)
{
    bce_t b = {.n = op_rows(op, args),
               .n_class = op->desc.x[0].dim[1],
               .x = args->x[0].data,
               .targets = args->x[1].data,
               .loss = args->y[0].data};
    E_CUDA(sigmoid_bce_forward(&b, cuda_stream()), "sigmoid binary cross-entropy");
    return ERR_OK;
}

static err_t cuda_sigmoid_bce_backward(const op_t *op, const op_args_t *args)
{
    if (!args->dx[0].data) return ERR_OK;
    step_f32_t scale = {args->loss.scale, cuda_recorded(offsetof(backend_step_t, loss_scale))};
    float factor = (float)(args->loss.weight / (double)op->desc.x[0].dim[1]);
    E_CUDA(sigmoid_bce_backward(args->x[0].data, args->x[1].data, scale, factor, args->dx[0].data,
                                op_rows(op, args) * op->desc.x[0].dim[1], cuda_stream()),
           "sigmoid binary cross-entropy, backward");
    return ERR_OK;
}

const op_kernel_t cuda_sigmoid_bce = {.forward = cuda_sigmoid_bce_forward,
                                      .backward = cuda_sigmoid_bce_backward};
