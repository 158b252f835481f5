/* SPDX-License-Identifier: MIT */
/* Reference pooling: defines which of equal pixels wins and how NaN propagates. */
#include <math.h>

#include "kernels/ref/ref.h"

/* One window, clipped to the image: rows [h0, h1), columns [w0, w1). Never empty, as padding < kernel. */
typedef struct window {
    int64_t h0, h1, w0, w1;
} window_t;

static int64_t at_least(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static int64_t at_most(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static window_t window_at(const op_desc_t *d, int64_t oh, int64_t ow)
{
    const pool2d_attr_t *a = &d->attr.pool2d;
    int64_t h = oh * a->stride_h - a->pad_h, w = ow * a->stride_w - a->pad_w;
    return (window_t){at_least(h, 0), at_most(h + a->kernel_h, d->x[0].dim[1]), at_least(w, 0),
                      at_most(w + a->kernel_w, d->x[0].dim[2])};
}

/* The pixel (row · width + column) of the first largest value of one channel, or of the first NaN. */
static int32_t winner(const float *x, window_t v, int64_t width, int64_t channels)
{
    int64_t best = v.h0 * width + v.w0;
    for (int64_t h = v.h0; h < v.h1; h++)
        for (int64_t w = v.w0; w < v.w1; w++) {
            float value = x[(h * width + w) * channels], top = x[best * channels];
            if (!isnan(top) && (isnan(value) || value > top)) best = h * width + w;
        }
    return (int32_t)best;
}

static double mean(const float *x, window_t v, int64_t width, int64_t channels)
{
    double sum = 0;
    for (int64_t h = v.h0; h < v.h1; h++)
        for (int64_t w = v.w0; w < v.w1; w++) sum += x[(h * width + w) * channels];
    return sum / (double)((v.h1 - v.h0) * (v.w1 - v.w0));
}

static err_t ref_pool2d_plan(op_t *op)
{
    bool keep = op->training && op->desc.attr.pool2d.mode == POOL_MAX;
    op->n_saved_bytes = keep ? (size_t)shape_count(op->desc.y[0]) * sizeof(int32_t) : 0;
    return ERR_OK;
}

static err_t ref_pool2d_forward(const op_t *op, const op_args_t *args)
{
    const op_desc_t *d = &op->desc;
    const int64_t *in = d->x[0].dim, *out = d->y[0].dim;
    float *y = args->y[0].data;
    int32_t *saved = op->n_saved_bytes ? args->saved : NULL;
    for (int64_t n = 0; n < out[0]; n++)
        for (int64_t oh = 0; oh < out[1]; oh++)
            for (int64_t ow = 0; ow < out[2]; ow++)
                for (int64_t c = 0; c < out[3]; c++) {
                    const float *x = (const float *)args->x[0].data + n * in[1] * in[2] * in[3] + c;
                    window_t v = window_at(d, oh, ow);
                    if (d->attr.pool2d.mode == POOL_AVG) {
                        *y++ = (float)mean(x, v, in[2], in[3]);
                        continue;
                    }
                    int32_t cell = winner(x, v, in[2], in[3]);
                    *y++ = x[cell * in[3]];
                    if (saved) *saved++ = cell;
                }
    return ERR_OK;
}

/* Contribution of window (oh, ow) to input pixel (h, w). i: index of the output element. */
static double share_of(const op_desc_t *d, const op_args_t *args, int64_t oh, int64_t ow, int64_t i,
                       int64_t h, int64_t w)
{
    const float *dy = args->dy[0].data;
    window_t v = window_at(d, oh, ow);
    if (h < v.h0 || h >= v.h1 || w < v.w0 || w >= v.w1) return 0;
    if (d->attr.pool2d.mode == POOL_AVG) return (double)dy[i] / (double)((v.h1 - v.h0) * (v.w1 - v.w0));
    return ((const int32_t *)args->saved)[i] == h * d->x[0].dim[2] + w ? dy[i] : 0.0;
}

/* Gradient of input element (n, h, w, c): the sum over every window that can contain it. */
static double sum_shares(const op_desc_t *d, const op_args_t *args, int64_t n, int64_t h, int64_t w,
                         int64_t c)
{
    const pool2d_attr_t *a = &d->attr.pool2d;
    const int64_t *out = d->y[0].dim;
    int64_t oh0 = at_least((h + a->pad_h - a->kernel_h) / a->stride_h, 0);
    int64_t oh1 = at_most((h + a->pad_h) / a->stride_h + 1, out[1]);
    int64_t ow0 = at_least((w + a->pad_w - a->kernel_w) / a->stride_w, 0);
    int64_t ow1 = at_most((w + a->pad_w) / a->stride_w + 1, out[2]);
    double sum = 0;
    for (int64_t oh = oh0; oh < oh1; oh++)
        for (int64_t ow = ow0; ow < ow1; ow++)
            sum += share_of(d, args, oh, ow, ((n * out[1] + oh) * out[2] + ow) * out[3] + c, h, w);
    return sum;
}

static err_t ref_pool2d_backward(const op_t *op, const op_args_t *args)
{
    const int64_t *in = op->desc.x[0].dim;
    float *dx = args->dx[0].data;
    if (!dx) return ERR_OK;
    for (int64_t n = 0; n < in[0]; n++)
        for (int64_t h = 0; h < in[1]; h++)
            for (int64_t w = 0; w < in[2]; w++)
                for (int64_t c = 0; c < in[3]; c++) *dx++ = (float)sum_shares(&op->desc, args, n, h, w, c);
    return ERR_OK;
}

const op_kernel_t ref_pool2d = {
    .plan = ref_pool2d_plan, .forward = ref_pool2d_forward, .backward = ref_pool2d_backward};
