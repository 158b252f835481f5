/* SPDX-License-Identifier: MIT */
/* Binds the binary cross-entropy of selected entries to the operator table. */
#include "kernels/cuda/selected.h"

static err_t cuda_sigmoid_bce_at_forward(const op_t *op, const op_args_t *args)
{
    selected_t s = cuda_selected(op, args, &sigmoid_bce_at_formula);
    E_CUDA(sigmoid_bce_at_forward(&s, cuda_stream()), "sigmoid_bce_at");
    return ERR_OK;
}

static err_t cuda_sigmoid_bce_at_backward(const op_t *op, const op_args_t *args)
{
    if (!args->dx[0].data) return ERR_OK;
    selected_t s = cuda_selected(op, args, &sigmoid_bce_at_formula);
    TRY(cuda_selected_clear(&s, args->dx[0].data));
    E_CUDA(sigmoid_bce_at_backward(&s, cuda_selected_scale(args), args->loss.weight, args->dx[0].data,
                                   cuda_stream()),
           "sigmoid_bce_at, backward");
    return ERR_OK;
}

const op_kernel_t cuda_sigmoid_bce_at = {.plan = cuda_selected_plan,
                                         .forward = cuda_sigmoid_bce_at_forward,
                                         .backward = cuda_sigmoid_bce_at_backward};
