/* SPDX-License-Identifier: MIT */
/* Reference optimizers, written from the formulas of compute/ops/optim_args.h, and the sum of squares. */
#include <math.h>

#include "kernels/ref/ref.h"

/* One element at a time, in double; state is rounded to float once per step. */
static double clipped_gradient(const optim_args_t *a, int64_t i)
{
    return a->gradient_scale * a->gradient[i];
}

static double decayed_gradient(const optim_args_t *a, int64_t i)
{
    return clipped_gradient(a, i) + a->weight_decay * a->weight[i];
}

static void update_weight(const optim_args_t *a, int64_t i, double weight)
{
    a->weight[i] = (float)weight;
    if (!a->average) return;
    double d = a->average_decay;
    a->average[i] = (float)(d * a->average[i] + (1 - d) * a->weight[i]);
}

err_t ref_optim_sgd(const optim_args_t *a)
{
    for (int64_t i = 0; i < a->n; i++) {
        double g = decayed_gradient(a, i), v = a->momentum * a->state[0][i] + g;
        a->state[0][i] = (float)v;
        update_weight(a, i, a->weight[i] - a->lr * (a->nesterov ? g + a->momentum * v : v));
    }
    return ERR_OK;
}

err_t ref_optim_adadelta(const optim_args_t *a)
{
    for (int64_t i = 0; i < a->n; i++) {
        double g = decayed_gradient(a, i), s = a->rho * a->state[0][i] + (1 - a->rho) * g * g;
        double delta = sqrt(a->state[1][i] + a->epsilon) / sqrt(s + a->epsilon) * g;
        a->state[0][i] = (float)s;
        a->state[1][i] = (float)(a->rho * a->state[1][i] + (1 - a->rho) * delta * delta);
        update_weight(a, i, a->weight[i] - a->lr * delta);
    }
    return ERR_OK;
}

err_t ref_optim_adamw(const optim_args_t *a)
{
    for (int64_t i = 0; i < a->n; i++) {
        double g = clipped_gradient(a, i);
        double m = a->beta[0] * a->state[0][i] + (1 - a->beta[0]) * g;
        double v = a->beta[1] * a->state[1][i] + (1 - a->beta[1]) * g * g;
        double step = m / a->correction[0] / (sqrt(v / a->correction[1]) + a->epsilon);
        a->state[0][i] = (float)m;
        a->state[1][i] = (float)v;
        update_weight(a, i, a->weight[i] - a->lr * a->weight_decay * a->weight[i] - a->lr * step);
    }
    return ERR_OK;
}

err_t ref_optim_lars(const optim_args_t *a)
{
    for (int64_t i = 0; i < a->n; i++) {
        double g = decayed_gradient(a, i);
        double v = a->momentum * a->state[0][i] + a->lr * a->trust_ratio * g;
        a->state[0][i] = (float)v;
        update_weight(a, i, a->weight[i] - v);
    }
    return ERR_OK;
}

err_t ref_sum_squares(const float *x, int64_t n, double *out)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += (double)x[i] * x[i];
    *out = sum;
    return ERR_OK;
}
