/* SPDX-License-Identifier: MIT */
/* Strides, padding and taps of a convolution in terms of packed images and tiles, for the AMX kernels. Buffer
 * sizes and chunks are left to amx.c. */
#include "kernels/cpu/conv/amx_shape.h"

#include "kernels/cpu/loop.h"

/* Whether the pixels of a window's row are packed as one. */
static bool merges(const op_desc_t *d)
{
    return d->x[0].dim[3] < AMX_DEPTH && d->attr.conv2d.kernel_w > 1;
}

/* Whether each output reads exactly one pixel. */
static bool is_single(const conv2d_attr_t *a)
{
    return a->kernel_h == 1 && a->kernel_w == 1 && a->pad_h == 0 && a->pad_w == 0;
}

static void cut_rows(phase_t *p)
{
    p->n_tiles = (p->columns + AMX_ROWS - 1) / AMX_ROWS;
    p->tile_rows = p->n_tiles ? (int)((p->columns + p->n_tiles - 1) / p->n_tiles) : 1;
}

static void shape_forward(amx_plan_t *p, const op_desc_t *d)
{
    const conv2d_attr_t *a = &d->attr.conv2d;
    const int64_t *x = d->x[0].dim, *y = d->y[0].dim;
    bool single = is_single(a), same = a->stride_h == a->stride_w, merged = merges(d);
    p->h = x[1], p->w = x[2], p->c = x[3], p->n_out = y[3];
    p->in_place = single && p->in_dtype == DTYPE_BF16 && p->c % AMX_DEPTH == 0;
    p->every = single && same && !p->in_place ? a->stride_h : 1;
    p->top = a->pad_h, p->left = a->pad_w;
    p->packed_h = (p->h + p->every - 1) / p->every + 2 * a->pad_h;
    p->packed_w = merged ? y[2] : (p->w + p->every - 1) / p->every + 2 * a->pad_w;
    p->window = merged ? a->kernel_w : 1, p->window_every = merged ? a->stride_w : 0;
    p->cell = loop_round_up(p->window * p->c, AMX_DEPTH), p->n_steps = p->cell / AMX_DEPTH;
    int64_t cell = p->cell * 2, row = p->packed_w * cell;
    p->in_row = a->stride_h / p->every * row, p->in_column = merged ? cell : a->stride_w / p->every * cell;
    p->out_row = y[2] * y[3], p->out_column = y[3], p->out_image = y[1] * p->out_row;
    p->n_phases = 1;
    phase_t *phase = &p->phases[0];
    *phase =
        (phase_t){.rows = y[1], .columns = y[2], .n_taps = merged ? a->kernel_h : a->kernel_h * a->kernel_w};
    /* Without windows and without skipped pixels an image is one long row. */
    if (single && same && p->every == a->stride_h) phase->rows = 1, phase->columns = y[1] * y[2];
    cut_rows(phase);
    for (int64_t t = 0; t < phase->n_taps; t++) {
        int64_t r = merged ? t : t / a->kernel_w, s = merged ? 0 : t % a->kernel_w;
        p->taps[t] = (amx_tap_t){r * row + s * cell, t * p->n_steps * 2 * AMX_TILE_BYTES};
    }
}

/* Along one axis: pixels i = stride·u + place − pad of dx, for u ≥ first. Each is a sum over t of tap r =
 * place + stride·t of the filter times dy at u − t. */
typedef struct axis {
    int64_t first, count, most;
} axis_t;

static axis_t axis_of(int64_t size, int64_t kernel, int64_t stride, int64_t pad, int64_t place)
{
    axis_t a = {.first = pad > place ? (pad - place + stride - 1) / stride : 0};
    int64_t last = size - 1 + pad - place; /* upper bound of stride·u */
    a.count = last < 0 ? 0 : last / stride - a.first + 1;
    if (a.count < 0) a.count = 0;
    a.most = place < kernel ? (kernel - 1 - place) / stride : -1;
    return a;
}

static void shape_phase(amx_plan_t *p, const conv2d_attr_t *a, int64_t place_h, int64_t place_w, int64_t w,
                        int64_t *n_taps)
{
    int64_t h = p->out_image / (w * p->n_out);
    axis_t v = axis_of(h, a->kernel_h, a->stride_h, a->pad_h, place_h);
    axis_t u = axis_of(w, a->kernel_w, a->stride_w, a->pad_w, place_w);
    int64_t cell = p->cell * 2, row = p->packed_w * cell;
    phase_t *phase = &p->phases[p->n_phases++];
    *phase = (phase_t){.rows = v.count,
                       .columns = u.count,
                       .in = (v.first + p->top) * row + (u.first + p->left) * cell,
                       .first_tap = *n_taps};
    phase->out =
        ((a->stride_h * v.first + place_h - a->pad_h) * w + a->stride_w * u.first + place_w - a->pad_w) *
        p->n_out;
    cut_rows(phase);
    for (int64_t i = 0; i <= v.most; i++)
        for (int64_t j = 0; j <= u.most; j++) {
            int64_t tap = (place_h + a->stride_h * i) * a->kernel_w + place_w + a->stride_w * j;
            p->taps[*n_taps + phase->n_taps++] =
                (amx_tap_t){-i * row - j * cell, tap * p->n_steps * 2 * AMX_TILE_BYTES};
        }
    *n_taps += phase->n_taps;
}

static void shape_data(amx_plan_t *p, const op_desc_t *d)
{
    const conv2d_attr_t *a = &d->attr.conv2d;
    const int64_t *x = d->x[0].dim, *y = d->y[0].dim;
    int64_t n_taps = 0;
    p->h = y[1], p->w = y[2], p->c = y[3], p->n_out = x[3], p->every = 1;
    p->cell = loop_round_up(p->c, AMX_DEPTH), p->n_steps = p->cell / AMX_DEPTH;
    p->out_row = a->stride_h * x[2] * x[3], p->out_column = a->stride_w * x[3];
    p->out_image = x[1] * x[2] * x[3];
    /* How far a tap reaches back, and the last pixel beyond dy. */
    p->top = (a->kernel_h - 1) / a->stride_h, p->left = (a->kernel_w - 1) / a->stride_w;
    int64_t below = (x[1] - 1 + a->pad_h) / a->stride_h + 1, beside = (x[2] - 1 + a->pad_w) / a->stride_w + 1;
    p->packed_h = p->top + (below > y[1] ? below : y[1]);
    p->packed_w = p->left + (beside > y[2] ? beside : y[2]);
    p->in_place = p->in_dtype == DTYPE_BF16 && p->packed_h == y[1] && p->packed_w == y[2] && p->cell == p->c;
    p->in_row = p->packed_w * p->cell * 2, p->in_column = p->cell * 2;
    bool one_row = is_single(a) && a->stride_h == 1 && a->stride_w == 1; /* as in forward */
    for (int64_t i = 0; i < a->stride_h; i++)
        for (int64_t j = 0; j < a->stride_w; j++)
            shape_phase(p, a, i, j, one_row ? x[1] * x[2] : x[2], &n_taps);
}

void conv_amx_shape(const conv_problem_t *problem, amx_plan_t *p)
{
    const op_desc_t *d = problem->desc;
    bool forward = problem->pass == OP_FORWARD;
    p->n = d->x[0].dim[0];
    p->in_dtype = forward ? d->x_dtype[0] : d->y_dtype[0];
    p->out_dtype = forward ? d->y_dtype[0] : d->x_dtype[0];
    if (forward)
        shape_forward(p, d);
    else
        shape_data(p, d);
    p->in_cell = p->c * (int64_t)dtype_size(p->in_dtype), p->out_value = (int64_t)dtype_size(p->out_dtype);
}
