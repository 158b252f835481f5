/* SPDX-License-Identifier: MIT */
/* Reference features of regions: one output element at a time. Positions are float32, as torchvision's, because
 * a point one cell outside makes a jump; sums are double. */
#include <math.h>

#include "compute/boxes/boxes.h"
#include "kernels/ref/ref.h"

/* A region on its level. */
typedef struct region {
    int level;
    int64_t image;
    float y, x, bin_h, bin_w;
    int samples_h, samples_w;
} region_t;

static region_t region_at(const op_t *op, const op_args_t *args, int64_t row)
{
    const roi_align_attr_t *a = &op->desc.attr.roi_align;
    const float *r = (const float *)args->x[ROI_ALIGN_LEVELS].data + row * ROI_ALIGN_VALUES;
    int level =
        box_level((box_t){r[1], r[2], r[3], r[4]}, ROI_ALIGN_LOWEST, ROI_ALIGN_LOWEST + ROI_ALIGN_LEVELS - 1);
    float scale = 1.0f / (float)(1 << level);
    const float centre = a->aligned ? 0.5f : 0, least = a->aligned ? 0 : 1;
    float x = r[1] * scale - centre, y = r[2] * scale - centre;
    float w = fmaxf(r[3] * scale - centre - x, least), h = fmaxf(r[4] * scale - centre - y, least);
    float bin_h = h / (float)a->height, bin_w = w / (float)a->width;
    return (region_t){level - ROI_ALIGN_LOWEST,
                      (int64_t)r[0],
                      y,
                      x,
                      bin_h,
                      bin_w,
                      a->samples ? a->samples : (int)ceilf(bin_h),
                      a->samples ? a->samples : (int)ceilf(bin_w)};
}

/* One dimension of a point: the cells on both sides, and their weights; none far outside. */
typedef struct side {
    int64_t cell[2];
    double weight[2];
} side_t;

static side_t side_of(float at, int64_t n)
{
    if (at < -1 || at > (float)n) return (side_t){{0, 0}, {0, 0}};
    if (at <= 0) at = 0;
    int64_t low = (int64_t)at;
    if (low >= n - 1) return (side_t){{n - 1, n - 1}, {1, 0}};
    float part = at - (float)low;
    return (side_t){{low, low + 1}, {1 - (double)part, (double)part}};
}

/* Calls add for each cell that bin (oh, ow) of a region reads: its index among the level's pixels, and its
 * share. */
typedef void (*add_t)(void *context, int64_t pixel, double share);
static void each_cell(const op_t *op, const region_t *r, int64_t oh, int64_t ow, add_t add, void *context)
{
    const int64_t *x = op->desc.x[r->level].dim;
    double all = (double)r->samples_h * r->samples_w;
    for (int i = 0; i < r->samples_h; i++)
        for (int j = 0; j < r->samples_w; j++) {
            float y_at = r->y + (float)oh * r->bin_h + ((float)i + 0.5f) * r->bin_h / (float)r->samples_h;
            float x_at = r->x + (float)ow * r->bin_w + ((float)j + 0.5f) * r->bin_w / (float)r->samples_w;
            side_t v = side_of(y_at, x[1]), h = side_of(x_at, x[2]);
            for (int k = 0; k < 4; k++)
                add(context, (r->image * x[1] + v.cell[k / 2]) * x[2] + h.cell[k % 2],
                    v.weight[k / 2] * h.weight[k % 2] / all);
        }
}

typedef struct gather {
    const float *level;
    int64_t channels, channel;
    double sum;
} gather_t;

static void gather_cell(void *context, int64_t pixel, double share)
{
    gather_t *g = context;
    g->sum += share * (double)g->level[pixel * g->channels + g->channel];
}

typedef struct scatter {
    float *level;
    int64_t channels, channel;
    double dy;
} scatter_t;

static void scatter_cell(void *context, int64_t pixel, double share)
{
    scatter_t *s = context;
    s->level[pixel * s->channels + s->channel] += (float)(share * s->dy);
}

static err_t ref_roi_align_forward(const op_t *op, const op_args_t *args)
{
    const int64_t *y = op->desc.y[0].dim;
    float *out = args->y[0].data;
    for (int64_t row = 0; row < op_rows(op, args); row++) {
        region_t r = region_at(op, args, row);
        for (int64_t i = 0; i < y[1] * y[2] * y[3]; i++) {
            gather_t g = {args->x[r.level].data, y[3], i % y[3], 0};
            each_cell(op, &r, i / y[3] / y[2], i / y[3] % y[2], gather_cell, &g);
            *out++ = (float)g.sum;
        }
    }
    return ERR_OK;
}

static err_t ref_roi_align_backward(const op_t *op, const op_args_t *args)
{
    const int64_t *y = op->desc.y[0].dim;
    const float *dy = args->dy[0].data;
    for (int level = 0; level < ROI_ALIGN_LEVELS; level++) {
        float *dx = args->dx[level].data;
        int64_t n = dx && !args->accumulate_dx[level] ? shape_count(op->desc.x[level]) : 0;
        for (int64_t i = 0; i < n; i++) dx[i] = 0;
    }
    for (int64_t row = 0; row < op_rows(op, args); row++) {
        region_t r = region_at(op, args, row);
        for (int64_t i = 0; i < y[1] * y[2] * y[3]; i++, dy++) {
            scatter_t s = {args->dx[r.level].data, y[3], i % y[3], *dy};
            if (s.level) each_cell(op, &r, i / y[3] / y[2], i / y[3] % y[2], scatter_cell, &s);
        }
    }
    return ERR_OK;
}

const op_kernel_t ref_roi_align = {
    .forward = ref_roi_align_forward, .backward = ref_roi_align_backward, .accumulates = true};
