/* SPDX-License-Identifier: MIT */
/* Features of regions, vectorised over channels: the cells of a point and their weights are computed once for
 * all channels. Forward divides regions among threads, backward channels, so that the order of every sum is
 * that of the regions. */
#include <math.h>
#include <omp.h>
#include <string.h>

#include "compute/boxes/boxes.h"
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/loop.h"

/* The four cells around a point. */
typedef struct point {
    int64_t pixel[4];
    float weight[4];
} point_t;

/* A region on its level: where its bins begin, their size, and how many points they have. */
typedef struct region {
    int level;
    int64_t image;
    float y, x, bin_h, bin_w;
    int samples_h, samples_w;
    float share; /* of one point */
} region_t;

static region_t region_at(const op_t *op, const op_args_t *args, int64_t row)
{
    const roi_align_attr_t *a = &op->desc.attr.roi_align;
    const float *v = (const float *)args->x[ROI_ALIGN_LEVELS].data + row * ROI_ALIGN_VALUES;
    const int highest = ROI_ALIGN_LOWEST + ROI_ALIGN_LEVELS - 1;
    int level = box_level((box_t){v[1], v[2], v[3], v[4]}, ROI_ALIGN_LOWEST, highest);
    const float scale = 1.0f / (float)(1 << level), centre = a->aligned ? 0.5f : 0,
                least = a->aligned ? 0 : 1;
    const float x = v[1] * scale - centre, y = v[2] * scale - centre;
    region_t r = {.level = level - ROI_ALIGN_LOWEST, .image = (int64_t)v[0], .y = y, .x = x};
    r.bin_h = fmaxf(v[4] * scale - centre - y, least) / (float)a->height;
    r.bin_w = fmaxf(v[3] * scale - centre - x, least) / (float)a->width;
    r.samples_h = a->samples ? a->samples : (int)ceilf(r.bin_h);
    r.samples_w = a->samples ? a->samples : (int)ceilf(r.bin_w);
    r.share = 1 / (float)(r.samples_h * r.samples_w);
    ASSERT(r.image >= 0 && r.image < op->desc.x[0].dim[0]);
    return r;
}

/* One dimension of a point: the lower cell, the distance to the upper one, and the weight of the upper one;
 * false far outside. */
static bool locate(float at, int64_t n, int64_t *cell, int64_t *next, float *upper)
{
    if (at < -1 || at > (float)n) return false;
    if (at <= 0) at = 0;
    *cell = (int64_t)at;
    *next = *cell < n - 1;
    if (!*next) *cell = n - 1;
    *upper = *next ? at - (float)*cell : 0;
    return true;
}

/* Point (i, j) of bin (oh, ow); false: it is 0. */
static bool point_at(const region_t *r, const int64_t *x, int64_t oh, int64_t ow, int i, int j, point_t *out)
{
    float at_y = r->y + (float)oh * r->bin_h + ((float)i + 0.5f) * r->bin_h / (float)r->samples_h;
    float at_x = r->x + (float)ow * r->bin_w + ((float)j + 0.5f) * r->bin_w / (float)r->samples_w;
    int64_t row, column, below, right;
    float v, h;
    if (!locate(at_y, x[1], &row, &below, &v) || !locate(at_x, x[2], &column, &right, &h)) return false;
    int64_t first = (r->image * x[1] + row) * x[2] + column;
    *out = (point_t){
        {first, first + right, first + below * x[2], first + below * x[2] + right},
        {(1 - v) * (1 - h) * r->share, (1 - v) * h * r->share, v * (1 - h) * r->share, v * h * r->share}};
    return true;
}

WIDE_CLONES(gather, (float *restrict y, const float *restrict x, int64_t stride, int64_t n, const point_t *p),
            (y, x, stride, n, p))
{
    const float *a = x + p->pixel[0] * stride, *b = x + p->pixel[1] * stride, *c = x + p->pixel[2] * stride,
                *d = x + p->pixel[3] * stride;
    const float wa = p->weight[0], wb = p->weight[1], wc = p->weight[2], wd = p->weight[3];
    for (int64_t k = 0; k < n; k++) y[k] += wa * a[k] + wb * b[k] + wc * c[k] + wd * d[k];
}

WIDE_CLONES(scatter, (float *restrict dx, const float *restrict dy, int64_t n, float weight),
            (dx, dy, n, weight))
{
    for (int64_t k = 0; k < n; k++) dx[k] += weight * dy[k];
}

static err_t cpu_roi_align_forward(const op_t *op, const op_args_t *args)
{
    const int64_t *y = op->desc.y[0].dim, n_rows = op_rows(op, args), channels = y[3];
    float *out = args->y[0].data;
#pragma omp parallel for schedule(dynamic, 4) if (n_rows > 1)
    for (int64_t row = 0; row < n_rows; row++) {
        const region_t r = region_at(op, args, row);
        const float *x = args->x[r.level].data;
        for (int64_t bin = 0; bin < y[1] * y[2]; bin++) {
            float *features = out + (row * y[1] * y[2] + bin) * channels;
            memset(features, 0, (size_t)channels * sizeof *features);
            for (int i = 0; i < r.samples_h * r.samples_w; i++) {
                point_t p;
                if (point_at(&r, op->desc.x[r.level].dim, bin / y[2], bin % y[2], i / r.samples_w,
                             i % r.samples_w, &p))
                    gather(features, x, channels, channels, &p);
            }
        }
    }
    return ERR_OK;
}

/* Adds n channels of dy, from `first` on, to the levels. */
static void backward_channels(const op_t *op, const op_args_t *args, int64_t first, int64_t n)
{
    const int64_t *y = op->desc.y[0].dim;
    for (int64_t row = 0; row < op_rows(op, args); row++) {
        const region_t r = region_at(op, args, row);
        float *dx = args->dx[r.level].data;
        const float *dy = (const float *)args->dy[0].data + row * y[1] * y[2] * y[3] + first;
        for (int64_t bin = 0; dx && bin < y[1] * y[2]; bin++)
            for (int i = 0; i < r.samples_h * r.samples_w; i++) {
                point_t p;
                if (!point_at(&r, op->desc.x[r.level].dim, bin / y[2], bin % y[2], i / r.samples_w,
                              i % r.samples_w, &p))
                    continue;
                for (int k = 0; k < 4; k++)
                    if (p.weight[k] > 0)
                        scatter(dx + p.pixel[k] * y[3] + first, dy + bin * y[3], n, p.weight[k]);
            }
    }
}

static void clear(float *dx, int64_t n)
{
#pragma omp parallel for schedule(static) if (n > LOOP_FORK_MIN)
    for (int64_t i = 0; i < n; i += LOOP_BLOCK)
        memset(dx + i, 0, (size_t)loop_count(i, n, LOOP_BLOCK) * sizeof *dx);
}

static err_t cpu_roi_align_backward(const op_t *op, const op_args_t *args)
{
    enum { VECTOR = 16 };
    const int64_t channels = op->desc.y[0].dim[3];
    for (int level = 0; level < ROI_ALIGN_LEVELS; level++)
        if (args->dx[level].data && !args->accumulate_dx[level])
            clear(args->dx[level].data, shape_count(op->desc.x[level]));
#pragma omp parallel if (channels > VECTOR)
    {
        int64_t part = loop_round_up((channels + omp_get_num_threads() - 1) / omp_get_num_threads(), VECTOR);
        int64_t first = omp_get_thread_num() * part;
        if (first < channels) backward_channels(op, args, first, loop_count(first, channels, part));
    }
    return ERR_OK;
}

const op_kernel_t cpu_roi_align = {
    .forward = cpu_roi_align_forward, .backward = cpu_roi_align_backward, .accumulates = true};
