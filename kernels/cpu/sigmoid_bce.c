/* SPDX-License-Identifier: MIT */
/* Mean binary cross-entropy of sigmoids over the classes of a sample, and its gradient. */
#include <math.h>

#include "kernels/cpu/cpu.h"

/* An exp costs about 10 ns, so a fork pays from fewer elements on than elsewhere. */
enum { FORK_MIN = 4096 };

/* In double: classes are few compared with the rest of a network. The product is computed also where the
 * target is 0: ∞ · 0 is the NaN that the definition requires. */
static double sample_loss(const float *x, const float *t, int64_t n_class)
{
    double sum = 0;
    for (int64_t k = 0; k < n_class; k++)
        sum += (x[k] > 0 ? x[k] : 0) - (double)x[k] * t[k] + log1p(exp(-fabs((double)x[k])));
    return sum / (double)n_class;
}

static err_t cpu_sigmoid_bce_forward(const op_t *op, const op_args_t *args)
{
    int64_t n = op_rows(op, args), n_class = op->desc.x[0].dim[1];
    const float *x = args->x[0].data, *t = args->x[1].data;
    float *y = args->y[0].data;
#pragma omp parallel for schedule(static) if (n * n_class > FORK_MIN)
    for (int64_t i = 0; i < n; i++) y[i] = (float)sample_loss(x + i * n_class, t + i * n_class, n_class);
    return ERR_OK;
}

static err_t cpu_sigmoid_bce_backward(const op_t *op, const op_args_t *args)
{
    int64_t n = op_rows(op, args) * op->desc.x[0].dim[1];
    double scale = args->loss.scale * args->loss.weight / (double)op->desc.x[0].dim[1];
    const float *x = args->x[0].data, *t = args->x[1].data;
    float *dx = args->dx[0].data;
    if (!dx) return ERR_OK;
#pragma omp parallel for schedule(static) if (n > FORK_MIN)
    for (int64_t i = 0; i < n; i++) dx[i] = (float)((1 / (1 + exp(-(double)x[i])) - t[i]) * scale);
    return ERR_OK;
}

const op_kernel_t cpu_sigmoid_bce = {.forward = cpu_sigmoid_bce_forward,
                                     .backward = cpu_sigmoid_bce_backward};
