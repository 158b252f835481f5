/* SPDX-License-Identifier: MIT */
/* smooth_l1 by the formula of compute/ops. */
#include "compute/ops/selected.h"
#include "kernels/ref/ref.h"

static err_t ref_smooth_l1_forward(const op_t *op, const op_args_t *args)
{
    const int64_t n = op_rows(op, args);
    float *y = args->y[0].data;
    for (int64_t i = 0; i < n; i++) y[i] = selected_loss(op, args, &smooth_l1_formula, i);
    return ERR_OK;
}

static err_t ref_smooth_l1_backward(const op_t *op, const op_args_t *args)
{
    const int64_t n = args->dx[0].data ? op_rows(op, args) : 0;
    for (int64_t i = 0; i < n; i++) selected_gradient(op, args, &smooth_l1_formula, i);
    return ERR_OK;
}

const op_kernel_t ref_smooth_l1 = {.forward = ref_smooth_l1_forward, .backward = ref_smooth_l1_backward};
