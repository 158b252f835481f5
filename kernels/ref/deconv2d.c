/* SPDX-License-Identifier: MIT */
/* Reference transposed convolution: a double sum per element. */
#include "kernels/ref/ref.h"

/* An element of y: its pixel of x, its row of the weight [kernel · kernel · out, in], its bias. */
typedef struct place {
    int64_t pixel, row, out;
} place_t;

static place_t place_of(const op_desc_t *d, int64_t i)
{
    const int64_t *x = d->x[0].dim, *y = d->y[0].dim;
    int64_t k = d->attr.deconv2d.kernel, out = i % y[3], w = i / y[3] % y[2], h = i / y[3] / y[2] % y[1];
    int64_t n = i / y[3] / y[2] / y[1];
    return (place_t){(n * x[1] + h / k) * x[2] + w / k, (h % k * k + w % k) * y[3] + out, out};
}

static err_t ref_deconv2d_forward(const op_t *op, const op_args_t *args)
{
    const op_desc_t *d = &op->desc;
    const float *x = args->x[0].data, *weight = args->param[0].data, *bias = args->param[1].data;
    const int64_t n_in = d->x[0].dim[3];
    float *y = args->y[0].data;
    for (int64_t i = 0; i < shape_count(d->y[0]); i++) {
        place_t p = place_of(d, i);
        double sum = d->attr.deconv2d.has_bias ? bias[p.out] : 0;
        for (int64_t c = 0; c < n_in; c++) sum += (double)x[p.pixel * n_in + c] * weight[p.row * n_in + c];
        y[i] = (float)sum;
    }
    return ERR_OK;
}

/* Row `at` of sums [n, n_in] += a · from. */
static void add(double *sums, int64_t at, int64_t n_in, double a, const float *from)
{
    for (int64_t c = 0; c < n_in; c++) sums[at * n_in + c] += a * from[c];
}

static void store(void *to, const double *sums, int64_t n)
{
    float *out = to;
    for (int64_t i = 0; i < n; i++) out[i] = (float)sums[i];
}

static err_t ref_deconv2d_backward(const op_t *op, const op_args_t *args)
{
    const op_desc_t *d = &op->desc;
    const float *x = args->x[0].data, *weight = args->param[0].data, *dy = args->dy[0].data;
    const int64_t n_in = d->x[0].dim[3], n_x = shape_count(d->x[0]), n_w = shape_count(d->param[0]),
                  n_b = d->y[0].dim[3];
    double *sums = args->workspace, *dx = sums, *dweight = dx + n_x, *dbias = dweight + n_w;
    for (int64_t i = 0; i < n_x + n_w + n_b; i++) sums[i] = 0;
    for (int64_t i = 0; i < shape_count(d->y[0]); i++) {
        place_t p = place_of(d, i);
        add(dx, p.pixel, n_in, dy[i], weight + p.row * n_in);
        add(dweight, p.row, n_in, dy[i], x + p.pixel * n_in);
        dbias[p.out] += dy[i];
    }
    if (args->dx[0].data) store(args->dx[0].data, dx, n_x);
    if (args->dparam[0].data) store(args->dparam[0].data, dweight, n_w);
    if (args->dparam[0].data && d->attr.deconv2d.has_bias) store(args->dparam[1].data, dbias, n_b);
    return ERR_OK;
}

static err_t ref_deconv2d_plan(op_t *op)
{
    const op_desc_t *d = &op->desc;
    int64_t n = shape_count(d->x[0]) + shape_count(d->param[0]) + d->y[0].dim[3];
    if (op->training) op->n_workspace_bytes = (size_t)n * sizeof(double);
    return ERR_OK;
}

const op_kernel_t ref_deconv2d = {
    .plan = ref_deconv2d_plan, .forward = ref_deconv2d_forward, .backward = ref_deconv2d_backward};
