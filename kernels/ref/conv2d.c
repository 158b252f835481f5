/* SPDX-License-Identifier: MIT */
/* Reference convolution: each output, input gradient and weight gradient is one sum, written from its
 * formula. No layouts, no tiles, no algorithms to choose from. */
#include "kernels/ref/ref.h"

typedef struct geometry {
    conv2d_attr_t a;
    int64_t n, h, w, c;       /* input */
    int64_t oh, ow, k;        /* output */
    int64_t c_group, k_group; /* channels per group */
} geometry_t;

static geometry_t geometry_of(const op_t *op)
{
    const int64_t *x = op->desc.x[0].dim, *y = op->desc.y[0].dim;
    int groups = op->desc.attr.conv2d.groups;
    return (geometry_t){.a = op->desc.attr.conv2d,
                        .n = x[0],
                        .h = x[1],
                        .w = x[2],
                        .c = x[3],
                        .oh = y[1],
                        .ow = y[2],
                        .k = y[3],
                        .c_group = x[3] / groups,
                        .k_group = y[3] / groups};
}

/* The input pixel that tap (r, s) of output pixel (oh, ow) reads; false if it is in the padding. */
static bool input_cell(const geometry_t *g, int64_t oh, int64_t ow, int r, int s, int64_t *cell)
{
    int64_t ih = oh * g->a.stride_h - g->a.pad_h + (int64_t)r * g->a.dilation_h;
    int64_t iw = ow * g->a.stride_w - g->a.pad_w + (int64_t)s * g->a.dilation_w;
    *cell = ih * g->w + iw;
    return ih >= 0 && ih < g->h && iw >= 0 && iw < g->w;
}

/* One output pixel and channel. x: the sample's first element of k's group; weight: filter k. */
static double correlate(const geometry_t *g, const float *x, const float *weight, int64_t oh, int64_t ow)
{
    double sum = 0;
    for (int r = 0; r < g->a.kernel_h; r++)
        for (int s = 0; s < g->a.kernel_w; s++) {
            int64_t cell;
            if (!input_cell(g, oh, ow, r, s, &cell)) continue;
            const float *taps = weight + (r * g->a.kernel_w + s) * g->c_group;
            for (int64_t c = 0; c < g->c_group; c++) sum += (double)x[cell * g->c + c] * taps[c];
        }
    return sum;
}

static err_t ref_conv2d_forward(const op_t *op, const op_args_t *given)
{
    geometry_t g = geometry_of(op);
    const op_args_t rounded = ref_round(op, given), *args = &rounded;
    const float *x = args->x[0].data, *weight = args->param[0].data,
                *bias = g.a.has_bias ? args->param[1].data : NULL;
    float *y = args->y[0].data;
    int64_t n_filter = (int64_t)g.a.kernel_h * g.a.kernel_w * g.c_group;
    for (int64_t n = 0; n < g.n; n++)
        for (int64_t oh = 0; oh < g.oh; oh++)
            for (int64_t ow = 0; ow < g.ow; ow++)
                for (int64_t k = 0; k < g.k; k++) {
                    const float *group = x + n * g.h * g.w * g.c + k / g.k_group * g.c_group;
                    double sum = correlate(&g, group, weight + k * n_filter, oh, ow);
                    *y++ = (float)(sum + (bias ? bias[k] : 0.0));
                }
    return ERR_OK;
}

/* The output coordinate whose tap reads input coordinate i; -1 if there is none. */
static int64_t output_coordinate(int64_t i, int tap, int stride, int pad, int dilation, int64_t n_out)
{
    int64_t reach = i + pad - (int64_t)tap * dilation;
    if (reach < 0 || reach % stride != 0 || reach / stride >= n_out) return -1;
    return reach / stride;
}

/* Gradient of input element (ih, iw, c): the sum over everything that reads it. dy: output gradients of the
 * sample. */
static double sum_dx(const geometry_t *g, const float *dy, const float *weight, int64_t ih, int64_t iw,
                     int64_t c)
{
    double sum = 0;
    int64_t k0 = c / g->c_group * g->k_group, c_in_group = c % g->c_group;
    for (int r = 0; r < g->a.kernel_h; r++) {
        int64_t oh = output_coordinate(ih, r, g->a.stride_h, g->a.pad_h, g->a.dilation_h, g->oh);
        for (int s = 0; s < g->a.kernel_w && oh >= 0; s++) {
            int64_t ow = output_coordinate(iw, s, g->a.stride_w, g->a.pad_w, g->a.dilation_w, g->ow);
            if (ow < 0) continue;
            for (int64_t k = k0; k < k0 + g->k_group; k++) {
                int64_t tap = ((k * g->a.kernel_h + r) * g->a.kernel_w + s) * g->c_group + c_in_group;
                sum += (double)dy[(oh * g->ow + ow) * g->k + k] * weight[tap];
            }
        }
    }
    return sum;
}

static void backward_data(const geometry_t *g, const float *dy, const float *weight, float *dx)
{
    for (int64_t n = 0; n < g->n; n++, dy += g->oh * g->ow * g->k)
        for (int64_t ih = 0; ih < g->h; ih++)
            for (int64_t iw = 0; iw < g->w; iw++)
                for (int64_t c = 0; c < g->c; c++) *dx++ = (float)sum_dx(g, dy, weight, ih, iw, c);
}

/* Gradient of tap (r, s) between output channel k and input channel c (counted over all groups). */
static double tap_gradient(const geometry_t *g, const float *x, const float *dy, int64_t k, int r, int s,
                           int64_t c)
{
    double sum = 0;
    for (int64_t n = 0; n < g->n; n++, x += g->h * g->w * g->c, dy += g->oh * g->ow * g->k)
        for (int64_t oh = 0; oh < g->oh; oh++)
            for (int64_t ow = 0; ow < g->ow; ow++) {
                int64_t cell;
                if (!input_cell(g, oh, ow, r, s, &cell)) continue;
                sum += (double)dy[(oh * g->ow + ow) * g->k + k] * x[cell * g->c + c];
            }
    return sum;
}

static void backward_weight(const geometry_t *g, const float *x, const float *dy, float *dweight)
{
    for (int64_t k = 0; k < g->k; k++)
        for (int r = 0; r < g->a.kernel_h; r++)
            for (int s = 0; s < g->a.kernel_w; s++)
                for (int64_t c = 0; c < g->c_group; c++)
                    *dweight++ = (float)tap_gradient(g, x, dy, k, r, s, k / g->k_group * g->c_group + c);
}

static void backward_bias(const geometry_t *g, const float *dy, float *dbias)
{
    for (int64_t k = 0; k < g->k; k++) {
        double sum = 0;
        for (int64_t i = 0; i < g->n * g->oh * g->ow; i++) sum += dy[i * g->k + k];
        dbias[k] = (float)sum;
    }
}

static err_t ref_conv2d_backward(const op_t *op, const op_args_t *given)
{
    geometry_t g = geometry_of(op);
    const op_args_t rounded = ref_round(op, given), *args = &rounded;
    if (args->dx[0].data) backward_data(&g, args->dy[0].data, args->param[0].data, args->dx[0].data);
    if (!args->dparam[0].data) return ERR_OK;
    backward_weight(&g, args->x[0].data, args->dy[0].data, args->dparam[0].data);
    if (g.a.has_bias) backward_bias(&g, args->dy[0].data, args->dparam[1].data);
    return ERR_OK;
}

const op_kernel_t ref_conv2d = {
    .plan = ref_round_plan, .forward = ref_conv2d_forward, .backward = ref_conv2d_backward};
