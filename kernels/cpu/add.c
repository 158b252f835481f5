/* SPDX-License-Identifier: MIT */
/* Elementwise addition, and the in-place sum of two gradients that meet at one tensor (cpu_accumulate). Its
 * gradient is a copy, skipped where dx already is dy. */
#include <string.h>

#include "compute/tensor/float16.h"
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/loop.h"

LOOP_CLONES(add_block, (float *y, const float *a, const float *b, int64_t n), (y, a, b, n))
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++) y[i] = a[i] + b[i];
}

static void add_arrays(float *y, const float *a, const float *b, int64_t n)
{
#pragma omp parallel for schedule(static) if (n > LOOP_FORK_MIN)
    for (int64_t i = 0; i < n; i += LOOP_BLOCK) add_block(y + i, a + i, b + i, loop_count(i, n, LOOP_BLOCK));
}

static err_t cpu_add_forward(const op_t *op, const op_args_t *args)
{
    add_arrays(args->y[0].data, args->x[0].data, args->x[1].data, shape_count(op->desc.y[0]));
    return ERR_OK;
}

static err_t cpu_add_backward(const op_t *op, const op_args_t *args)
{
    int64_t n = shape_count(op->desc.y[0]);
    const float *dy = args->dy[0].data;
    for (int input = 0; input < 2; input++) {
        float *dx = args->dx[input].data;
        if (dx && args->accumulate_dx[input]) add_arrays(dx, dx, dy, n);
        if (!dx || dx == dy || args->accumulate_dx[input]) continue;
#pragma omp parallel for schedule(static) if (n > LOOP_FORK_MIN)
        for (int64_t i = 0; i < n; i += LOOP_BLOCK)
            memcpy(dx + i, dy + i, (size_t)loop_count(i, n, LOOP_BLOCK) * sizeof(float));
    }
    return ERR_OK;
}

WIDE_CLONES(add_narrow, (uint16_t *restrict sum, const uint16_t *restrict term, int64_t n), (sum, term, n))
{
    for (int64_t i = 0; i < n; i++) sum[i] = bf16_from_float(bf16_to_float(sum[i]) + bf16_to_float(term[i]));
}

err_t cpu_accumulate(void *dst, const void *src, int64_t n, dtype_t dtype)
{
    uint16_t *sum = dst;
    const uint16_t *term = src;
    if (dtype == DTYPE_F32) {
        add_arrays(dst, dst, src, n);
        return ERR_OK;
    }
#pragma omp parallel for schedule(static) if (n > LOOP_FORK_MIN)
    for (int64_t i = 0; i < n; i += LOOP_BLOCK) add_narrow(sum + i, term + i, loop_count(i, n, LOOP_BLOCK));
    return ERR_OK;
}

const op_kernel_t cpu_add = {.forward = cpu_add_forward, .backward = cpu_add_backward, .accumulates = true};
