/* SPDX-License-Identifier: MIT */
/* Reference addition, and accumulation of gradients in float32 or bfloat16. */
#include "compute/tensor/float16.h"
#include "kernels/ref/ref.h"

static err_t ref_add_forward(const op_t *op, const op_args_t *args)
{
    int64_t count = shape_count(op->desc.y[0]);
    const float *x0 = args->x[0].data, *x1 = args->x[1].data;
    float *y = args->y[0].data;
    for (int64_t i = 0; i < count; i++) y[i] = x0[i] + x1[i];
    return ERR_OK;
}

static err_t ref_add_backward(const op_t *op, const op_args_t *args)
{
    int64_t count = shape_count(op->desc.y[0]);
    const float *dy = args->dy[0].data;
    for (int input = 0; input < 2; input++) {
        float *dx = args->dx[input].data;
        for (int64_t i = 0; i < count && dx; i++) dx[i] = args->accumulate_dx[input] ? dx[i] + dy[i] : dy[i];
    }
    return ERR_OK;
}

err_t ref_accumulate(void *dst, const void *src, int64_t n, dtype_t dtype)
{
    float *sum = dst;
    const float *term = src;
    uint16_t *narrow_sum = dst;
    const uint16_t *narrow_term = src;
    for (int64_t i = 0; i < n; i++) {
        if (dtype == DTYPE_BF16)
            narrow_sum[i] = bf16_from_float(bf16_to_float(narrow_sum[i]) + bf16_to_float(narrow_term[i]));
        else
            sum[i] += term[i];
    }
    return ERR_OK;
}

const op_kernel_t ref_add = {.forward = ref_add_forward, .backward = ref_add_backward, .accumulates = true};
