/* SPDX-License-Identifier: MIT */
/* Max and average pooling in our own loops: oneDNN's max pooling does not specify NaN or which of equal
 * pixels wins. Channels are innermost, so that every loop over them vectorizes. A thread takes whole
 * samples. */
#include <string.h>

#include "kernels/cpu/cpu.h"
#include "kernels/cpu/loop.h"

/* One window, clipped to the image: rows [h0, h1), columns [w0, w1). Never empty, as padding < kernel. */
typedef struct window {
    int64_t h0, h1, w0, w1;
} window_t;

static inline window_t window_at(const op_desc_t *d, int64_t oh, int64_t ow)
{
    const pool2d_attr_t *a = &d->attr.pool2d;
    int64_t h = oh * a->stride_h - a->pad_h, w = ow * a->stride_w - a->pad_w;
    int64_t h_end = h + a->kernel_h, w_end = w + a->kernel_w;
    return (window_t){h > 0 ? h : 0, h_end < d->x[0].dim[1] ? h_end : d->x[0].dim[1], w > 0 ? w : 0,
                      w_end < d->x[0].dim[2] ? w_end : d->x[0].dim[2]};
}

/* Saved for max: the winning pixel (row · width + column) of each output. */
static err_t cpu_pool2d_plan(op_t *op)
{
    bool keep = op->training && op->desc.attr.pool2d.mode == POOL_MAX;
    op->n_saved_bytes = keep ? (size_t)shape_count(op->desc.y[0]) * sizeof(int32_t) : 0;
    return ERR_OK;
}

/* One sample's tensors; in backward, x and y are the gradients. */
typedef struct sample {
    const op_desc_t *d;
    void *x, *y;
    int32_t *winner; /* NULL: average, or not needed */
} sample_t;

/* Stores a value that already is a bfloat16, without rounding. */
NARROW_INLINE void put_exact(void *tensor, int64_t i, float value, bool narrow)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    if (narrow)
        ((uint16_t *)tensor)[i] = (uint16_t)(bits >> 16);
    else
        ((float *)tensor)[i] = value;
}

/* y and winner of one window: its largest value, or NaN, and the pixel that had it. The first of equals wins,
 * as only a larger value replaces it. `not (v ≤ top)` also lets the first NaN in; nothing beats a NaN. */
NARROW_INLINE void max_window(const sample_t *s, const window_t *v, void *restrict y,
                              int32_t *restrict winner, bool save, bool narrow)
{
    int64_t width = s->d->x[0].dim[2], n_c = s->d->y[0].dim[3];
    const void *restrict x = s->x;
    int32_t first = (int32_t)(v->h0 * width + v->w0);
    for (int64_t c = 0; c < n_c; c++) put_exact(y, c, narrow_take(x, first * n_c + c, narrow), narrow);
    for (int64_t c = 0; save && c < n_c; c++) winner[c] = first;
    for (int64_t h = v->h0; h < v->h1; h++)
        for (int64_t w = v->w0; w < v->w1; w++) {
            int32_t here = (int32_t)(h * width + w);
            for (int64_t c = 0; c < n_c; c++) {
                float value = narrow_take(x, here * n_c + c, narrow), top = narrow_take(y, c, narrow);
                int better = !(value <= top) & (top == top);
                put_exact(y, c, better ? value : top, narrow);
                if (save) winner[c] = better ? here : winner[c];
            }
        }
}

/* Channels whose sums are kept while a window or its pixels are visited. */
enum { CHANNELS = 256 };

NARROW_INLINE void avg_window(const sample_t *s, const window_t *v, int64_t first, int64_t n, int64_t out,
                              bool narrow)
{
    int64_t width = s->d->x[0].dim[2], n_c = s->d->y[0].dim[3];
    _Alignas(64) float sum[CHANNELS];
    float n_cells = (float)((v->h1 - v->h0) * (v->w1 - v->w0));
    for (int64_t c = 0; c < n; c++) sum[c] = 0;
    for (int64_t h = v->h0; h < v->h1; h++)
        for (int64_t w = v->w0; w < v->w1; w++)
            for (int64_t c = 0; c < n; c++)
                sum[c] += narrow_take(s->x, (h * width + w) * n_c + first + c, narrow);
    for (int64_t c = 0; c < n; c++) narrow_put(s->y, out + c, sum[c] / n_cells, narrow);
}

NARROW_INLINE void forward_sample(const sample_t *s, bool narrow)
{
    const op_desc_t *d = s->d;
    int64_t n_c = d->y[0].dim[3], out = 0;
    for (int64_t oh = 0; oh < d->y[0].dim[1]; oh++)
        for (int64_t ow = 0; ow < d->y[0].dim[2]; ow++, out += n_c) {
            window_t v = window_at(d, oh, ow);
            if (d->attr.pool2d.mode == POOL_AVG)
                for (int64_t c = 0; c < n_c; c += CHANNELS)
                    avg_window(s, &v, c, loop_count(c, n_c, CHANNELS), out + c, narrow);
            else if (s->winner)
                max_window(s, &v, narrow_at(s->y, out, narrow), s->winner + out, true, narrow);
            else
                max_window(s, &v, narrow_at(s->y, out, narrow), NULL, false, narrow);
        }
}

LOOP_CLONES(forward_wide, (const sample_t *s), (s))
{
    forward_sample(s, false);
}

WIDE_CLONES(forward_narrow, (const sample_t *s), (s))
{
    forward_sample(s, true);
}

/* The windows [*first, *end) of n_out that contain row or column i. */
static inline void windows_of(int64_t i, int kernel, int stride, int pad, int64_t n_out, int64_t *first,
                              int64_t *end)
{
    int64_t before = i + pad - kernel + 1; /* earliest start of such a window */
    *first = before > 0 ? (before + stride - 1) / stride : 0;
    *end = (i + pad) / stride + 1;
    if (*end > n_out) *end = n_out;
}

/* One pixel of dx: the contributions of its windows are added in order and written once. */
NARROW_INLINE void gather(const sample_t *s, const window_t *out, int64_t h, int64_t w, int64_t first,
                          int64_t n, bool max, bool narrow)
{
    const op_desc_t *d = s->d;
    int64_t n_c = d->y[0].dim[3];
    int32_t here = (int32_t)(h * d->x[0].dim[2] + w);
    _Alignas(64) float sum[CHANNELS];
    for (int64_t c = 0; c < n; c++) sum[c] = 0;
    for (int64_t oh = out->h0; oh < out->h1; oh++)
        for (int64_t ow = out->w0; ow < out->w1; ow++) {
            int64_t i = (oh * d->y[0].dim[2] + ow) * n_c + first;
            window_t v = window_at(d, oh, ow);
            float share = 1 / (float)((v.h1 - v.h0) * (v.w1 - v.w0));
            for (int64_t c = 0; c < n; c++) {
                float dy = narrow_take(s->y, i + c, narrow);
                sum[c] += !max ? dy * share : s->winner[i + c] == here ? dy : 0;
            }
        }
    for (int64_t c = 0; c < n; c++) narrow_put(s->x, here * n_c + first + c, sum[c], narrow);
}

NARROW_INLINE void backward_sample(const sample_t *s, bool narrow)
{
    const op_desc_t *d = s->d;
    const pool2d_attr_t *a = &d->attr.pool2d;
    int64_t n_c = d->y[0].dim[3];
    for (int64_t h = 0; h < d->x[0].dim[1]; h++)
        for (int64_t w = 0; w < d->x[0].dim[2]; w++) {
            window_t out;
            windows_of(h, a->kernel_h, a->stride_h, a->pad_h, d->y[0].dim[1], &out.h0, &out.h1);
            windows_of(w, a->kernel_w, a->stride_w, a->pad_w, d->y[0].dim[2], &out.w0, &out.w1);
            for (int64_t c = 0; c < n_c; c += CHANNELS) {
                if (a->mode == POOL_AVG)
                    gather(s, &out, h, w, c, loop_count(c, n_c, CHANNELS), false, narrow);
                else
                    gather(s, &out, h, w, c, loop_count(c, n_c, CHANNELS), true, narrow);
            }
        }
}

/* For float32, where the sums can stay in memory. */
static void scatter(const sample_t *s)
{
    int64_t n_cells = s->d->y[0].dim[1] * s->d->y[0].dim[2], n_c = s->d->y[0].dim[3];
    const float *dy = s->y;
    const int32_t *winner = s->winner;
    float *dx = s->x;
    memset(dx, 0, (size_t)shape_sample_count(s->d->x[0]) * sizeof *dx);
    for (int64_t i = 0; i < n_cells; i++, dy += n_c, winner += n_c)
        for (int64_t c = 0; c < n_c; c++) dx[winner[c] * n_c + c] += dy[c];
}

LOOP_CLONES(backward_wide, (const sample_t *s), (s))
{
    if (s->winner)
        scatter(s);
    else
        backward_sample(s, false);
}

WIDE_CLONES(backward_narrow, (const sample_t *s), (s))
{
    backward_sample(s, true);
}

/* Runs forward or backward on each sample, one thread per sample. */
static void each_sample(const op_t *op, void *x, void *y, int32_t *winner, bool backward)
{
    const op_desc_t *d = &op->desc;
    int64_t n_in = shape_sample_count(d->x[0]), n_out = shape_sample_count(d->y[0]),
            n_samples = d->y[0].dim[0];
    bool narrow = op_is_all_narrow(d);
#pragma omp parallel for schedule(static) if (n_samples * n_in > LOOP_FORK_MIN)
    for (int64_t n = 0; n < n_samples; n++) {
        sample_t s = {d, narrow_at(x, n * n_in, narrow), narrow_at(y, n * n_out, narrow),
                      winner ? winner + n * n_out : NULL};
        if (narrow)
            backward ? backward_narrow(&s) : forward_narrow(&s);
        else
            backward ? backward_wide(&s) : forward_wide(&s);
    }
}

static err_t cpu_pool2d_forward(const op_t *op, const op_args_t *args)
{
    each_sample(op, (void *)args->x[0].data, args->y[0].data, op->n_saved_bytes ? args->saved : NULL, false);
    return ERR_OK;
}

static err_t cpu_pool2d_backward(const op_t *op, const op_args_t *args)
{
    if (args->dx[0].data)
        each_sample(op, args->dx[0].data, (void *)args->dy[0].data, op->n_saved_bytes ? args->saved : NULL,
                    true);
    return ERR_OK;
}

const op_kernel_t cpu_pool2d = {
    .plan = cpu_pool2d_plan, .forward = cpu_pool2d_forward, .backward = cpu_pool2d_backward, .bf16 = true};
