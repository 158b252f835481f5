/* SPDX-License-Identifier: MIT */
/* Reference softmax cross-entropy with label smoothing, in double. */
#include <math.h>

#include "kernels/ref/ref.h"

/* Saved: the probabilities, [n, classes]. */
static err_t ref_softmax_xent_plan(op_t *op)
{
    op->n_saved_bytes = op->training ? (size_t)shape_count(op->desc.x[0]) * sizeof(float) : 0;
    return ERR_OK;
}

static double target(const op_t *op, int64_t k, int32_t label)
{
    double smoothing = op->desc.attr.softmax_xent.label_smoothing;
    return (k == label ? 1 - smoothing : 0) + smoothing / (double)op->desc.x[0].dim[1];
}

/* 0: the row is left out. */
static double weight_of(const op_t *op, const op_args_t *args, int64_t n)
{
    const float *weights = op->desc.n_inputs > 2 ? args->x[2].data : NULL;
    int32_t label = ((const int32_t *)args->x[1].data)[n];
    ASSERT(label >= -1 && label < op->desc.x[0].dim[1]);
    return label < 0 ? 0 : weights ? weights[n] : 1;
}

static err_t ref_softmax_xent_forward(const op_t *op, const op_args_t *args)
{
    int64_t n_class = op->desc.x[0].dim[1];
    const float *x = args->x[0].data;
    const int32_t *labels = args->x[1].data;
    int32_t *predictions = args->y[1].data;
    float *y = args->y[0].data, *saved = op->n_saved_bytes ? args->saved : NULL;
    for (int64_t n = 0; n < op_rows(op, args); n++, x += n_class) {
        const double weight = weight_of(op, args, n);
        int64_t top = 0;
        for (int64_t k = 1; k < n_class; k++)
            if (x[k] > x[top]) top = k;
        double sum = 0, loss = 0;
        for (int64_t k = 0; k < n_class; k++) sum += exp((double)x[k] - x[top]);
        for (int64_t k = 0; k < n_class; k++) {
            double log_p = (double)x[k] - x[top] - log(sum);
            /* Also where the target is 0: 0 · −∞ is the NaN that op_attr.h requires. */
            loss -= target(op, k, labels[n]) * log_p;
            if (saved) saved[n * n_class + k] = (float)exp(log_p);
        }
        y[n] = labels[n] < 0 ? 0 : (float)(weight * loss);
        if (predictions) predictions[n] = (int32_t)top;
    }
    return ERR_OK;
}

static err_t ref_softmax_xent_backward(const op_t *op, const op_args_t *args)
{
    const int64_t n_class = op->desc.x[0].dim[1], count = op_rows(op, args) * n_class;
    const int32_t *labels = args->x[1].data;
    const float *saved = args->saved;
    float *dx = args->dx[0].data;
    for (int64_t i = 0; i < count && dx; i++) {
        double t = target(op, i % n_class, labels[i / n_class]), weight = weight_of(op, args, i / n_class);
        dx[i] = labels[i / n_class] < 0
                    ? 0
                    : (float)((saved[i] - t) * (args->loss.scale * args->loss.weight) * weight);
    }
    return ERR_OK;
}

const op_kernel_t ref_softmax_xent = {.plan = ref_softmax_xent_plan,
                                      .forward = ref_softmax_xent_forward,
                                      .backward = ref_softmax_xent_backward};
