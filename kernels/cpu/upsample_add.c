/* SPDX-License-Identifier: MIT */
/* Addition of an enlarged image, by pairs of rows: each coarse pixel is read once for its four fine ones. */
#include <string.h>

#include "kernels/cpu/cpu.h"
#include "kernels/cpu/loop.h"

/* One coarse row of w pixels into two fine rows. */
WIDE_CLONES(add_rows,
            (float *y, const float *fine, const float *coarse, int64_t w, int64_t c, int64_t next_row),
            (y, fine, coarse, w, c, next_row))
{
    for (int64_t p = 0; p < w; p++)
        for (int row = 0; row < 2; row++) {
            int64_t at = row * next_row + 2 * p * c;
#pragma omp simd
            for (int64_t k = 0; k < c; k++) y[at + k] = fine[at + k] + coarse[p * c + k];
#pragma omp simd
            for (int64_t k = 0; k < c; k++) y[at + c + k] = fine[at + c + k] + coarse[p * c + k];
        }
}

/* In ref's order: the upper two, then the lower two. */
WIDE_CLONES(sum_rows, (float *restrict dx, const float *restrict dy, int64_t w, int64_t c, int64_t next_row),
            (dx, dy, w, c, next_row))
{
    for (int64_t p = 0; p < w; p++) {
        const float *at = dy + 2 * p * c;
#pragma omp simd
        for (int64_t k = 0; k < c; k++)
            dx[p * c + k] = at[k] + at[c + k] + at[next_row + k] + at[next_row + c + k];
    }
}

static err_t cpu_upsample_add_forward(const op_t *op, const op_args_t *args)
{
    const int64_t *x = op->desc.x[1].dim, n_rows = x[0] * x[1], row = x[2] * x[3];
    const float *fine = args->x[0].data, *coarse = args->x[1].data;
    float *y = args->y[0].data;
#pragma omp parallel for schedule(static) if (4 * n_rows * row > LOOP_FORK_MIN)
    for (int64_t i = 0; i < n_rows; i++)
        add_rows(y + 4 * i * row, fine + 4 * i * row, coarse + i * row, x[2], x[3], 2 * row);
    return ERR_OK;
}

static err_t cpu_upsample_add_backward(const op_t *op, const op_args_t *args)
{
    const int64_t *x = op->desc.x[1].dim, n_rows = x[0] * x[1], row = x[2] * x[3];
    const float *dy = args->dy[0].data;
    float *fine = args->dx[0].data, *coarse = args->dx[1].data;
#pragma omp parallel for schedule(static) if (4 * n_rows * row > LOOP_FORK_MIN)
    for (int64_t i = 0; i < n_rows; i++) {
        if (coarse) sum_rows(coarse + i * row, dy + 4 * i * row, x[2], x[3], 2 * row);
        if (fine && fine != dy)
            memcpy(fine + 4 * i * row, dy + 4 * i * row, (size_t)(4 * row) * sizeof(float));
    }
    return ERR_OK;
}

const op_kernel_t cpu_upsample_add = {.forward = cpu_upsample_add_forward,
                                      .backward = cpu_upsample_add_backward};
