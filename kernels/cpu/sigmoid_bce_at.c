/* SPDX-License-Identifier: MIT */
/* sigmoid_bce_at by the formula of compute/ops, samples divided among threads. */
#include "compute/ops/selected.h"
#include "kernels/cpu/cpu.h"

static err_t cpu_sigmoid_bce_at_forward(const op_t *op, const op_args_t *args)
{
    const int64_t n = op_rows(op, args);
    float *y = args->y[0].data;
#pragma omp parallel for schedule(static) if (n > 1)
    for (int64_t i = 0; i < n; i++) y[i] = selected_loss(op, args, &sigmoid_bce_at_formula, i);
    return ERR_OK;
}

static err_t cpu_sigmoid_bce_at_backward(const op_t *op, const op_args_t *args)
{
    const int64_t n = args->dx[0].data ? op_rows(op, args) : 0;
#pragma omp parallel for schedule(static) if (n > 1)
    for (int64_t i = 0; i < n; i++) selected_gradient(op, args, &sigmoid_bce_at_formula, i);
    return ERR_OK;
}

const op_kernel_t cpu_sigmoid_bce_at = {.forward = cpu_sigmoid_bce_at_forward,
                                        .backward = cpu_sigmoid_bce_at_backward};
