/* SPDX-License-Identifier: MIT */
/* Reference addition of an enlarged image. */
#include "kernels/ref/ref.h"

/* The element of x1 that element i of y is made of. */
static int64_t coarse_of(const op_t *op, int64_t i)
{
    const int64_t *y = op->desc.y[0].dim, *x = op->desc.x[1].dim;
    int64_t c = i % y[3], w = i / y[3] % y[2], h = i / y[3] / y[2] % y[1], n = i / y[3] / y[2] / y[1];
    return ((n * x[1] + h / 2) * x[2] + w / 2) * x[3] + c;
}

static err_t ref_upsample_add_forward(const op_t *op, const op_args_t *args)
{
    const float *fine = args->x[0].data, *coarse = args->x[1].data;
    float *y = args->y[0].data;
    for (int64_t i = 0; i < shape_count(op->desc.y[0]); i++) y[i] = fine[i] + coarse[coarse_of(op, i)];
    return ERR_OK;
}

static err_t ref_upsample_add_backward(const op_t *op, const op_args_t *args)
{
    const float *dy = args->dy[0].data;
    float *fine = args->dx[0].data, *coarse = args->dx[1].data;
    int64_t count = shape_count(op->desc.y[0]);
    /* Before dx0, which may share memory with dy. */
    for (int64_t i = 0; coarse && i < shape_count(op->desc.x[1]); i++) coarse[i] = 0;
    for (int64_t i = 0; coarse && i < count; i++) coarse[coarse_of(op, i)] += dy[i];
    for (int64_t i = 0; fine && i < count; i++) fine[i] = dy[i];
    return ERR_OK;
}

const op_kernel_t ref_upsample_add = {.forward = ref_upsample_add_forward,
                                      .backward = ref_upsample_add_backward};
