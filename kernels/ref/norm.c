/* SPDX-License-Identifier: MIT */
/* Reference batch norm: groups, statistics shared between ranks, and the fused addition and ReLU, one channel
 * at a time in double. Reference group norm: one sample and group of channels at a time. */
#include <math.h>

#include "kernels/ref/ref.h"

/* Saved: mean and 1/std of each group, [groups, 2, c], in double, so that backward starts without rounding;
 * with a fused ReLU, a byte per element that says whether y is above 0. */
typedef struct norm {
    int64_t n_c, n_groups;
    int64_t n_rows, group_rows; /* row: all channels of one pixel */
} norm_t;

static norm_t norm_of(const op_t *op)
{
    shape_t y = op->desc.y[0];
    int64_t group = op->desc.attr.batch_norm.group > 0 ? op->desc.attr.batch_norm.group : y.dim[0];
    norm_t n = {.n_c = op->desc.param[0].dim[0], .n_groups = (y.dim[0] + group - 1) / group};
    n.n_rows = shape_count(y) / n.n_c;
    n.group_rows = n.n_rows / y.dim[0] * group;
    return n;
}

static err_t ref_batch_norm_plan(op_t *op)
{
    norm_t n = norm_of(op);
    if (!op->training) return ERR_OK;
    op->n_saved_bytes = 2 * (size_t)(n.n_groups * n.n_c) * sizeof(double);
    if (op->desc.attr.batch_norm.epilogue.relu) op->n_saved_bytes += (size_t)shape_count(op->desc.y[0]);
    return ERR_OK;
}

/* The bytes saved for the ReLU; NULL if there are none. */
static uint8_t *mask_of(const op_t *op, const op_args_t *args)
{
    norm_t n = norm_of(op);
    bool kept = op->training && op->desc.attr.batch_norm.epilogue.relu;
    return kept ? (uint8_t *)((double *)args->saved + 2 * n.n_groups * n.n_c) : NULL;
}

static int64_t rows_of_group(const norm_t *n, int64_t group)
{
    int64_t left = n->n_rows - group * n->group_rows;
    return left < n->group_rows ? left : n->group_rows;
}

static err_t sum_shared(const op_args_t *args, double *values, int64_t n)
{
    return args->batch_norm.sum_shared ? args->batch_norm.sum_shared(args->batch_norm.context, values, n)
                                       : ERR_OK;
}

/* One channel: m elements of this rank, c apart. *variance is biased; *n: number of elements over all ranks
 * that share statistics. */
static err_t channel_moments(const op_args_t *args, const float *x, int64_t m, int64_t c, double *mean,
                             double *variance, double *n)
{
    double sums[2] = {0, (double)m}, squares = 0;
    for (int64_t i = 0; i < m; i++) sums[0] += x[i * c];
    TRY(sum_shared(args, sums, 2));
    *n = sums[1];
    *mean = sums[0] / *n;
    for (int64_t i = 0; i < m; i++) squares += (x[i * c] - *mean) * (x[i * c] - *mean);
    TRY(sum_shared(args, &squares, 1));
    *variance = squares / *n;
    return ERR_OK;
}

static void update_running(float *running, double batch, double momentum)
{
    *running = (float)(*running + momentum * (batch - *running));
}

static void normalize(const float *x, float *y, int64_t m, int64_t c, double mean, double gain, double shift)
{
    for (int64_t i = 0; i < m; i++) y[i * c] = (float)(gain * (x[i * c] - mean) + shift);
}

static err_t train_channel(const op_t *op, const op_args_t *args, int64_t c)
{
    const batch_norm_attr_t *a = &op->desc.attr.batch_norm;
    norm_t n = norm_of(op);
    const float *x = args->x[0].data, *gamma = args->param[0].data, *beta = args->param[1].data;
    float *y = args->y[0].data, *running_mean = args->state[0].data, *running_variance = args->state[1].data;
    double *saved = op->n_saved_bytes ? args->saved : NULL, mean_sum = 0, variance_sum = 0;
    for (int64_t g = 0; g < n.n_groups; g++) {
        int64_t first = g * n.group_rows * n.n_c + c, m = rows_of_group(&n, g);
        double mean = running_mean[c], variance = running_variance[c], count = 1;
        if (!a->frozen) TRY(channel_moments(args, x + first, m, n.n_c, &mean, &variance, &count));
        mean_sum += mean;
        variance_sum += count > 1 ? variance * count / (count - 1) : variance;
        double inverse_std = 1 / sqrt(variance + a->epsilon);
        normalize(x + first, y + first, m, n.n_c, mean, gamma[c] * inverse_std, beta[c]);
        if (saved) saved[2 * g * n.n_c + c] = mean, saved[(2 * g + 1) * n.n_c + c] = inverse_std;
    }
    if (a->frozen) return ERR_OK;
    update_running(&running_mean[c], mean_sum / (double)n.n_groups, a->momentum);
    update_running(&running_variance[c], variance_sum / (double)n.n_groups, a->momentum);
    return ERR_OK;
}

/* The fused operations, on the normalized y. */
static void apply_fused(const op_t *op, const op_args_t *args)
{
    float *y = args->y[0].data;
    const float *other = args->x[1].data;
    uint8_t *mask = args->training ? mask_of(op, args) : NULL;
    for (int64_t i = 0; i < shape_count(op->desc.y[0]); i++) {
        if (op->desc.n_inputs == 2) y[i] += other[i];
        if (op->desc.attr.batch_norm.epilogue.relu) y[i] = y[i] <= 0 ? 0 : y[i];
        if (mask) mask[i] = y[i] > 0;
    }
}

static err_t ref_batch_norm_forward(const op_t *op, const op_args_t *args)
{
    norm_t n = norm_of(op);
    const float *x = args->x[0].data, *gamma = args->param[0].data, *beta = args->param[1].data;
    const float *mean = args->state[0].data, *variance = args->state[1].data;
    for (int64_t c = 0; c < n.n_c; c++) {
        if (args->training) {
            TRY(train_channel(op, args, c));
            continue;
        }
        double gain = gamma[c] / sqrt(variance[c] + op->desc.attr.batch_norm.epsilon);
        normalize(x + c, (float *)args->y[0].data + c, n.n_rows, n.n_c, mean[c], gain, beta[c]);
    }
    apply_fused(op, args);
    return ERR_OK;
}

/* With x̂ = (x−mean)/std: dβ = Σ dy, dγ = Σ dy·x̂ over this rank's elements; dx = γ/std · (dy − (Σ dy + x̂·Σ
 * dy·x̂)/n) with sums over the n elements of all ranks that share statistics; Ioffe & Szegedy 2015, section
 * 3. */
static err_t backward_channel(const op_t *op, const op_args_t *args, int64_t c)
{
    norm_t n = norm_of(op);
    const float *x = args->x[0].data, *dy = args->dy[0].data, *gamma = args->param[0].data;
    float *dx = args->dx[0].data, *dgamma = args->dparam[0].data, *dbeta = args->dparam[1].data;
    float *dother = op->desc.n_inputs == 2 ? args->dx[1].data : NULL;
    const double *saved = args->saved;
    const uint8_t *mask = mask_of(op, args);
    double gradient[2] = {0, 0};
    for (int64_t g = 0; g < n.n_groups; g++) {
        int64_t m = rows_of_group(&n, g), first = g * n.group_rows * n.n_c + c, end = first + m * n.n_c;
        double mean = saved[2 * g * n.n_c + c], inverse_std = saved[(2 * g + 1) * n.n_c + c];
        double sums[3] = {0, 0, (double)m};
        for (int64_t i = first; i < end; i += n.n_c) {
            float passed = mask && !mask[i] ? 0 : dy[i];
            sums[0] += passed;
            sums[1] += passed * ((x[i] - mean) * inverse_std);
            if (dother) dother[i] = passed;
        }
        gradient[0] += sums[0], gradient[1] += sums[1];
        if (op->desc.attr.batch_norm.frozen)
            sums[0] = sums[1] = 0;
        else
            TRY(sum_shared(args, sums, 3));
        for (int64_t i = first; i < end && dx; i += n.n_c) {
            double xhat = (x[i] - mean) * inverse_std;
            float passed = mask && !mask[i] ? 0 : dy[i];
            dx[i] = (float)(gamma[c] * inverse_std * (passed - (sums[0] + xhat * sums[1]) / sums[2]));
        }
    }
    if (dgamma) dbeta[c] = (float)gradient[0], dgamma[c] = (float)gradient[1];
    return ERR_OK;
}

static err_t ref_batch_norm_backward(const op_t *op, const op_args_t *args)
{
    for (int64_t c = 0; c < op->desc.param[0].dim[0]; c++) TRY(backward_channel(op, args, c));
    return ERR_OK;
}

const op_kernel_t ref_batch_norm = {.plan = ref_batch_norm_plan,
                                    .forward = ref_batch_norm_forward,
                                    .backward = ref_batch_norm_backward,
                                    .fuses = true};

/* The elements of one group of channels of one sample: `channels` in a row at each of n_pixels, n_c apart. Saved: mean and
 * 1/std of each span, in double; with a fused ReLU, a byte per element that says whether y is above 0. */
typedef struct span {
    int64_t n_c, channels, n_pixels, n_spans;
} span_t;

static span_t span_of(const op_desc_t *desc)
{
    const int64_t n_c = desc->param[0].dim[0], n = desc->y[0].dim[0], groups = desc->attr.group_norm.groups;
    return (span_t){n_c, n_c / groups, shape_count(desc->y[0]) / n_c / n, n * groups};
}

/* Element i of span k, and its channel. */
static int64_t span_at(const span_t *s, int64_t k, int64_t i, int64_t *c)
{
    const int64_t groups = s->n_c / s->channels;
    *c = k % groups * s->channels + i % s->channels;
    return (k / groups * s->n_pixels + i / s->channels) * s->n_c + *c;
}

static err_t ref_group_norm_plan(op_t *op)
{
    if (!op->training) return ERR_OK;
    op->n_saved_bytes = 2 * (size_t)span_of(&op->desc).n_spans * sizeof(double);
    if (op->desc.attr.group_norm.epilogue.relu) op->n_saved_bytes += (size_t)shape_count(op->desc.y[0]);
    return ERR_OK;
}

/* NULL: nothing is saved for the ReLU. */
static uint8_t *passed_of(const op_t *op, const op_args_t *args)
{
    const bool kept = op->training && op->desc.attr.group_norm.epilogue.relu;
    return kept ? (uint8_t *)((double *)args->saved + 2 * span_of(&op->desc).n_spans) : NULL;
}

static err_t ref_group_norm_forward(const op_t *op, const op_args_t *args)
{
    const group_norm_attr_t *a = &op->desc.attr.group_norm;
    const span_t s = span_of(&op->desc);
    const int64_t m = s.n_pixels * s.channels;
    const float *x = args->x[0].data, *other = op->desc.n_inputs == 2 ? args->x[1].data : NULL;
    const float *gamma = args->param[0].data, *beta = args->param[1].data;
    float *y = args->y[0].data;
    double *saved = op->training ? args->saved : NULL;
    uint8_t *passed = passed_of(op, args);
    int64_t c;
    for (int64_t k = 0; k < s.n_spans; k++) {
        double mean = 0, squares = 0;
        for (int64_t i = 0; i < m; i++) mean += x[span_at(&s, k, i, &c)] / (double)m;
        for (int64_t i = 0; i < m; i++) squares += pow(x[span_at(&s, k, i, &c)] - mean, 2);
        const double inverse_std = 1 / sqrt(squares / (double)m + a->epsilon);
        if (saved) saved[2 * k] = mean, saved[2 * k + 1] = inverse_std;
        for (int64_t i = 0; i < m; i++) {
            const int64_t at = span_at(&s, k, i, &c);
            float value = (float)(gamma[c] * inverse_std * (x[at] - mean) + beta[c]);
            if (other) value += other[at];
            y[at] = a->epilogue.relu && value <= 0 ? 0 : value;
            if (passed) passed[at] = y[at] > 0;
        }
    }
    return ERR_OK;
}

/* With g = dy where the ReLU passed, x̂ = (x−mean)/std and averages over the span: dβ = Σ g, dγ = Σ g·x̂, dx =
 * (γ·g − average(γ·g) − x̂·average(γ·g·x̂))/std. */
static err_t ref_group_norm_backward(const op_t *op, const op_args_t *args)
{
    const span_t s = span_of(&op->desc);
    const int64_t groups = s.n_c / s.channels, m = s.n_pixels * s.channels;
    const float *x = args->x[0].data, *dy = args->dy[0].data, *gamma = args->param[0].data;
    float *dx = args->dx[0].data, *other = op->desc.n_inputs == 2 ? args->dx[1].data : NULL;
    float *dgamma = args->dparam[0].data, *dbeta = args->dparam[1].data;
    const double *saved = args->saved;
    const uint8_t *passed = passed_of(op, args);
    for (int64_t c = 0; c < s.n_c && dgamma; c++) {
        double sums[2] = {0, 0};
        for (int64_t at = c; at < s.n_spans * m; at += s.n_c) {
            const int64_t k = at / (s.n_pixels * s.n_c) * groups + c / s.channels;
            const double g = passed && !passed[at] ? 0 : dy[at];
            sums[0] += g * (x[at] - saved[2 * k]) * saved[2 * k + 1], sums[1] += g;
        }
        dgamma[c] = (float)sums[0], dbeta[c] = (float)sums[1];
    }
    for (int64_t k = 0; k < s.n_spans; k++) {
        const double mean = saved[2 * k], inverse_std = saved[2 * k + 1];
        double average[2] = {0, 0};
        int64_t c;
        for (int64_t i = 0; i < m; i++) {
            const int64_t at = span_at(&s, k, i, &c);
            const double g = passed && !passed[at] ? 0 : dy[at];
            average[0] += gamma[c] * g / (double)m;
            average[1] += gamma[c] * g * (x[at] - mean) * inverse_std / (double)m;
        }
        for (int64_t i = 0; i < m; i++) {
            const int64_t at = span_at(&s, k, i, &c);
            const float g = passed && !passed[at] ? 0 : dy[at];
            const double xhat = (x[at] - mean) * inverse_std;
            if (other) other[at] = g;
            if (dx) dx[at] = (float)(inverse_std * (gamma[c] * g - average[0] - xhat * average[1]));
        }
    }
    return ERR_OK;
}

const op_kernel_t ref_group_norm = {.plan = ref_group_norm_plan,
                                    .forward = ref_group_norm_forward,
                                    .backward = ref_group_norm_backward,
                                    .fuses = true};
