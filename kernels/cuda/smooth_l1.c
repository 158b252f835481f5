/* SPDX-License-Identifier: MIT */
/* Binds the loss of box regression to the operator table. */
#include "kernels/cuda/selected.h"

static err_t cuda_smooth_l1_forward(const op_t *op, const op_args_t *args)
{
    selected_t s = cuda_selected(op, args, &smooth_l1_formula);
    E_CUDA(smooth_l1_forward(&s, (float)op->desc.attr.smooth_l1.beta, cuda_stream()), "smooth_l1");
    return ERR_OK;
}

static err_t cuda_smooth_l1_backward(const op_t *op, const op_args_t *args)
{
    if (!args->dx[0].data) return ERR_OK;
    selected_t s = cuda_selected(op, args, &smooth_l1_formula);
    TRY(cuda_selected_clear(&s, args->dx[0].data));
    E_CUDA(smooth_l1_backward(&s, (float)op->desc.attr.smooth_l1.beta, cuda_selected_scale(args),
                              args->loss.weight, args->dx[0].data, cuda_stream()),
           "smooth_l1, backward");
    return ERR_OK;
}

const op_kernel_t cuda_smooth_l1 = {
    .plan = cuda_selected_plan, .forward = cuda_smooth_l1_forward, .backward = cuda_smooth_l1_backward};
