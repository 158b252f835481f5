#include <string.h>

#include "kernels/cpu/cpu.h"
#include "kernels/cpu/loop.h"

/* Our own loops: oneDNN's max pooling promises nothing on NaN or on which of equal cells wins. The channels
 * are innermost, so that every loop over them is vector code. One thread takes whole samples. */

/* One window, cut to the picture: rows [h0, h1), columns [w0, w1). Never empty, as padding < kernel. */
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

/* Saved for max: the winning cell (row · width + column) of each output. */
static err_t plan(op_t *op)
{
    bool keep = op->training && op->desc.attr.pool2d.mode == POOL_MAX;
    op->n_saved_bytes = keep ? (size_t)shape_count(op->desc.y) * sizeof(int32_t) : 0;
    return ERR_OK;
}

/* The largest of the window's cells, or NaN. `not (v ≤ top)` also lets the first NaN in; nothing beats a NaN.
 */
LOOP_CLONES static void max_forward(const op_desc_t *d, const float *restrict x, float *restrict y)
{
    int64_t width = d->x[0].dim[2], n_c = d->y.dim[3];
    for (int64_t oh = 0; oh < d->y.dim[1]; oh++)
        for (int64_t ow = 0; ow < d->y.dim[2]; ow++, y += n_c) {
            window_t v = window_at(d, oh, ow);
            memcpy(y, x + (v.h0 * width + v.w0) * n_c, (size_t)n_c * sizeof *y);
            for (int64_t h = v.h0; h < v.h1; h++)
                for (int64_t w = v.w0; w < v.w1; w++) {
                    const float *cell = x + (h * width + w) * n_c;
                    for (int64_t c = 0; c < n_c; c++) {
                        float value = cell[c], top = y[c];
                        y[c] = !(value <= top) & (top == top) ? value : top;
                    }
                }
        }
}

/* The same, and which cell it was: the first of equals, as only a larger one replaces it. */
LOOP_CLONES static void max_forward_saving(const op_desc_t *d, const float *restrict x, float *restrict y,
                                           int32_t *restrict winner)
{
    int64_t width = d->x[0].dim[2], n_c = d->y.dim[3];
    for (int64_t oh = 0; oh < d->y.dim[1]; oh++)
        for (int64_t ow = 0; ow < d->y.dim[2]; ow++, y += n_c, winner += n_c) {
            window_t v = window_at(d, oh, ow);
            int32_t first = (int32_t)(v.h0 * width + v.w0);
            memcpy(y, x + first * n_c, (size_t)n_c * sizeof *y);
            for (int64_t c = 0; c < n_c; c++) winner[c] = first;
            for (int64_t h = v.h0; h < v.h1; h++)
                for (int64_t w = v.w0; w < v.w1; w++) {
                    int32_t here = (int32_t)(h * width + w);
                    const float *cell = x + here * n_c;
                    for (int64_t c = 0; c < n_c; c++) {
                        float value = cell[c], top = y[c];
                        int take = !(value <= top) & (top == top);
                        y[c] = take ? value : top;
                        winner[c] = take ? here : winner[c];
                    }
                }
        }
}

static void max_backward(const op_desc_t *d, const float *dy, const int32_t *winner, float *dx)
{
    int64_t n_cells = d->y.dim[1] * d->y.dim[2], n_c = d->y.dim[3];
    memset(dx, 0, (size_t)shape_sample_count(d->x[0]) * sizeof *dx);
    for (int64_t i = 0; i < n_cells; i++, dy += n_c, winner += n_c)
        for (int64_t c = 0; c < n_c; c++) dx[winner[c] * n_c + c] += dy[c];
}

LOOP_CLONES static void avg_forward(const op_desc_t *d, const float *restrict x, float *restrict y)
{
    int64_t width = d->x[0].dim[2], n_c = d->y.dim[3];
    for (int64_t oh = 0; oh < d->y.dim[1]; oh++)
        for (int64_t ow = 0; ow < d->y.dim[2]; ow++, y += n_c) {
            window_t v = window_at(d, oh, ow);
            float n_cells = (float)((v.h1 - v.h0) * (v.w1 - v.w0));
            memset(y, 0, (size_t)n_c * sizeof *y);
            for (int64_t h = v.h0; h < v.h1; h++)
                for (int64_t w = v.w0; w < v.w1; w++) {
                    const float *cell = x + (h * width + w) * n_c;
                    for (int64_t c = 0; c < n_c; c++) y[c] += cell[c];
                }
            for (int64_t c = 0; c < n_c; c++) y[c] /= n_cells;
        }
}

LOOP_CLONES static void avg_backward(const op_desc_t *d, const float *restrict dy, float *restrict dx)
{
    int64_t width = d->x[0].dim[2], n_c = d->y.dim[3];
    memset(dx, 0, (size_t)shape_sample_count(d->x[0]) * sizeof *dx);
    for (int64_t oh = 0; oh < d->y.dim[1]; oh++)
        for (int64_t ow = 0; ow < d->y.dim[2]; ow++, dy += n_c) {
            window_t v = window_at(d, oh, ow);
            float share = 1 / (float)((v.h1 - v.h0) * (v.w1 - v.w0));
            for (int64_t h = v.h0; h < v.h1; h++)
                for (int64_t w = v.w0; w < v.w1; w++) {
                    float *cell = dx + (h * width + w) * n_c;
                    for (int64_t c = 0; c < n_c; c++) cell[c] += dy[c] * share;
                }
        }
}

static err_t forward(const op_t *op, const op_args_t *args)
{
    const op_desc_t *d = &op->desc;
    int64_t n_in = shape_sample_count(d->x[0]), n_out = shape_sample_count(d->y), n_samples = d->y.dim[0];
    const float *x = args->x[0];
    float *y = args->y;
    int32_t *saved = op->n_saved_bytes ? args->saved : NULL;
#pragma omp parallel for schedule(static) if (n_samples * n_in > LOOP_FORK_MIN)
    for (int64_t n = 0; n < n_samples; n++) {
        if (d->attr.pool2d.mode == POOL_AVG)
            avg_forward(d, x + n * n_in, y + n * n_out);
        else if (saved)
            max_forward_saving(d, x + n * n_in, y + n * n_out, saved + n * n_out);
        else
            max_forward(d, x + n * n_in, y + n * n_out);
    }
    return ERR_OK;
}

static err_t backward(const op_t *op, const op_args_t *args)
{
    const op_desc_t *d = &op->desc;
    int64_t n_in = shape_sample_count(d->x[0]), n_out = shape_sample_count(d->y), n_samples = d->y.dim[0];
    const float *dy = args->dy;
    const int32_t *saved = args->saved;
    float *dx = args->dx[0];
    if (!dx) return ERR_OK;
#pragma omp parallel for schedule(static) if (n_samples * n_in > LOOP_FORK_MIN)
    for (int64_t n = 0; n < n_samples; n++) {
        if (d->attr.pool2d.mode == POOL_AVG)
            avg_backward(d, dy + n * n_out, dx + n * n_in);
        else
            max_backward(d, dy + n * n_out, saved + n * n_out, dx + n * n_in);
    }
    return ERR_OK;
}

const op_kernel_t cpu_pool2d = {.plan = plan, .forward = forward, .backward = backward};
