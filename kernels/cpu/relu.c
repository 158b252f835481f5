/* SPDX-License-Identifier: MIT */
/* ReLU that is not fused into another operator. NaN propagates. */
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/loop.h"

/* y may be x and dx may be dy, hence no restrict. Element i depends on element i alone; `omp simd` states
 * that. */
LOOP_CLONES(relu_block, (float *y, const float *x, int64_t n), (y, x, n))
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++) y[i] = x[i] <= 0 ? 0 : x[i];
}

LOOP_CLONES(relu_backward_block, (float *dx, const float *dy, const float *y, int64_t n), (dx, dy, y, n))
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        float gradient = dy[i];
        dx[i] = y[i] > 0 ? gradient : 0;
    }
}

static err_t cpu_relu_forward(const op_t *op, const op_args_t *args)
{
    int64_t n = shape_count(op->desc.y[0]);
    const float *x = args->x[0].data;
    float *y = args->y[0].data;
#pragma omp parallel for schedule(static) if (n > LOOP_FORK_MIN)
    for (int64_t i = 0; i < n; i += LOOP_BLOCK) relu_block(y + i, x + i, loop_count(i, n, LOOP_BLOCK));
    return ERR_OK;
}

static err_t cpu_relu_backward(const op_t *op, const op_args_t *args)
{
    int64_t n = shape_count(op->desc.y[0]);
    const float *dy = args->dy[0].data, *y = args->y[0].data;
    float *dx = args->dx[0].data;
    if (!dx) return ERR_OK;
#pragma omp parallel for schedule(static) if (n > LOOP_FORK_MIN)
    for (int64_t i = 0; i < n; i += LOOP_BLOCK)
        relu_backward_block(dx + i, dy + i, y + i, loop_count(i, n, LOOP_BLOCK));
    return ERR_OK;
}

const op_kernel_t cpu_relu = {.forward = cpu_relu_forward, .backward = cpu_relu_backward};
