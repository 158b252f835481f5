/* SPDX-License-Identifier: MIT */
/* Reference ReLU; NaN propagates. */
#include "kernels/ref/ref.h"

static err_t ref_relu_forward(const op_t *op, const op_args_t *args)
{
    int64_t count = shape_count(op->desc.y[0]);
    const float *x = args->x[0].data;
    float *y = args->y[0].data;
    /* In this order NaN propagates. */
    for (int64_t i = 0; i < count; i++) y[i] = x[i] <= 0 ? 0 : x[i];
    return ERR_OK;
}

static err_t ref_relu_backward(const op_t *op, const op_args_t *args)
{
    int64_t count = shape_count(op->desc.y[0]);
    const float *y = args->y[0].data, *dy = args->dy[0].data;
    float *dx = args->dx[0].data;
    for (int64_t i = 0; i < count && dx; i++) dx[i] = y[i] > 0 ? dy[i] : 0;
    return ERR_OK;
}

const op_kernel_t ref_relu = {.forward = ref_relu_forward, .backward = ref_relu_backward};
