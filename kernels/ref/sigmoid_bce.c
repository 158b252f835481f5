/* SPDX-License-Identifier: MIT */
/* Reference sigmoid binary cross-entropy, in double, in the form that does not overflow. */
#include <math.h>

#include "kernels/ref/ref.h"

static err_t ref_sigmoid_bce_forward(const op_t *op, const op_args_t *args)
{
    int64_t n_class = op->desc.x[0].dim[1];
    const float *x = args->x[0].data, *t = args->x[1].data;
    float *y = args->y[0].data;
    for (int64_t n = 0; n < op_rows(op, args); n++, x += n_class, t += n_class) {
        double sum = 0;
        /* The product is computed also where the target is 0: ∞ · 0 is NaN, as required. */
        for (int64_t k = 0; k < n_class; k++)
            sum += (x[k] > 0 ? x[k] : 0) - (double)x[k] * t[k] + log1p(exp(-fabs((double)x[k])));
        y[n] = (float)(sum / (double)n_class);
    }
    return ERR_OK;
}

static err_t ref_sigmoid_bce_backward(const op_t *op, const op_args_t *args)
{
    int64_t count = op_rows(op, args) * op->desc.x[0].dim[1];
    double scale = args->loss.scale * args->loss.weight / (double)op->desc.x[0].dim[1];
    const float *x = args->x[0].data, *t = args->x[1].data;
    float *dx = args->dx[0].data;
    for (int64_t i = 0; i < count && dx; i++) dx[i] = (float)((1 / (1 + exp(-(double)x[i])) - t[i]) * scale);
    return ERR_OK;
}

const op_kernel_t ref_sigmoid_bce = {.forward = ref_sigmoid_bce_forward,
                                     .backward = ref_sigmoid_bce_backward};
