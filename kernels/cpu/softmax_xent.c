/* SPDX-License-Identifier: MIT */
/* Cross-entropy of a softmax with label smoothing, the predicted class, and the gradient. */
#include <math.h>
#include <string.h>

#include "kernels/cpu/cpu.h"
#include "kernels/cpu/loop.h"

/* An exp costs about 10 ns, so a fork pays from fewer elements on than elsewhere. */
enum { FORK_MIN = 4096 };

/* Saved: w · (softmax(x) − t), [n, classes]; backward only scales it. */
static err_t cpu_softmax_xent_plan(op_t *op)
{
    op->n_saved_bytes = op->training ? (size_t)shape_count(op->desc.x[0]) * sizeof(float) : 0;
    return ERR_OK;
}

static int64_t index_of_max(const float *x, int64_t n)
{
    int64_t top = 0;
    for (int64_t k = 1; k < n; k++)
        if (x[k] > x[top]) top = k;
    return top;
}

/* One sample's loss. Exponentials and sums are in double: classes are few compared with the rest of a
 * network. */
static float sample_loss(const float *x, int64_t n_class, double max, int64_t label, double smoothing,
                         float *saved)
{
    double sum = 0, dot = 0, even = smoothing / (double)n_class;
    for (int64_t k = 0; k < n_class; k++) {
        double z = x[k] - max, target = (k == label ? 1 - smoothing : 0) + even;
        sum += exp(z);
        /* Also where the target is 0: 0 · −∞ is the NaN that op_attr.h requires. */
        dot += target * z;
    }
    for (int64_t k = 0; k < n_class && saved; k++)
        saved[k] = (float)(exp(x[k] - max) / sum - ((k == label ? 1 - smoothing : 0) + even));
    return (float)(log(sum) - dot);
}

/* Multiplies a sample's gradient by its weight, and returns the loss times it. */
static float weigh(float loss, float weight, float *saved, int64_t n_class)
{
    for (int64_t k = 0; k < n_class && saved; k++) saved[k] *= weight;
    return loss * weight;
}

static err_t cpu_softmax_xent_forward(const op_t *op, const op_args_t *args)
{
    int64_t n = op_rows(op, args), n_class = op->desc.x[0].dim[1];
    double smoothing = op->desc.attr.softmax_xent.label_smoothing;
    const float *x = args->x[0].data;
    const int32_t *labels = args->x[1].data;
    int32_t *predictions = args->y[1].data;
    const float *weights = op->desc.n_inputs > 2 ? args->x[2].data : NULL;
    float *y = args->y[0].data, *saved = op->n_saved_bytes ? args->saved : NULL;
#pragma omp parallel for schedule(static) if (n * n_class > FORK_MIN)
    for (int64_t i = 0; i < n; i++) {
        const float *row = x + i * n_class;
        float *kept = saved ? saved + i * n_class : NULL;
        ASSERT(labels[i] >= -1 && labels[i] < n_class);
        int64_t top = index_of_max(row, n_class);
        if (predictions) predictions[i] = (int32_t)top;
        if (labels[i] < 0) {
            y[i] = 0;
            if (kept) memset(kept, 0, (size_t)n_class * sizeof *kept);
            continue;
        }
        y[i] = sample_loss(row, n_class, row[top], labels[i], smoothing, kept);
        if (weights) y[i] = weigh(y[i], weights[i], kept, n_class);
    }
    return ERR_OK;
}

LOOP_CLONES(scale_block, (float *dx, const float *saved, float scale, int64_t n), (dx, saved, scale, n))
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++) dx[i] = saved[i] * scale;
}

static err_t cpu_softmax_xent_backward(const op_t *op, const op_args_t *args)
{
    int64_t n = op_rows(op, args) * op->desc.x[0].dim[1];
    const float *saved = args->saved;
    float *dx = args->dx[0].data, scale = args->loss.scale * args->loss.weight;
    if (!dx) return ERR_OK;
#pragma omp parallel for schedule(static) if (n > LOOP_FORK_MIN)
    for (int64_t i = 0; i < n; i += LOOP_BLOCK)
        scale_block(dx + i, saved + i, scale, loop_count(i, n, LOOP_BLOCK));
    return ERR_OK;
}

const op_kernel_t cpu_softmax_xent = {.plan = cpu_softmax_xent_plan,
                                      .forward = cpu_softmax_xent_forward,
                                      .backward = cpu_softmax_xent_backward};
