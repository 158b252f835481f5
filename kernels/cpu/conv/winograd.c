/* SPDX-License-Identifier: MIT */
/* 3×3 convolutions of stride 1 by the transforms of winograd_transform.h, in our own layout: oneDNN's
 * Winograd needs blocked images and reads and writes them once more to get them.
 *
 *   forward           y  = Aᵀ[(Bᵀ x B) · (G w Gᵀ)]A
 *   backward data     the same on dy, with filters rotated, channels exchanged and padding 2 − pad
 *   backward weights  dw = Gᵀ[Σ (Bᵀ x B) · (A dy Aᵀ)]G, the derivative of forward with respect to w
 *
 * Where one or two rows or columns of pixels are left over, the last tiles are half: a map of 14×14 then takes 484
 * products of a channel by a filter instead of 576.
 *
 * Data between transform and product should stay in cache. If there are few filters, they are transformed
 * once and tiles are processed in chunks; with many filters and few tiles, all tiles are transformed at once
 * and filters in blocks. No sum depends on the number of threads. */
#include <omp.h>
#include <string.h>

#include "base/mem.h"
#include "kernels/cpu/conv/conv.h"
#include "kernels/cpu/conv/winograd_plan.h"
#include "kernels/cpu/direct/direct.h"
#include "kernels/cpu/loop.h"
#include "kernels/cpu/matrix.h"

static bool winograd_fits(const conv_impl_t *impl, const conv_problem_t *problem)
{
    const op_desc_t *d = problem->desc;
    const conv2d_attr_t *a = &d->attr.conv2d;
    (void)impl;
    return a->groups == 1 && a->kernel_h == 3 && a->kernel_w == 3 && a->stride_h == 1 && a->stride_w == 1 &&
           a->dilation_h == 1 && a->dilation_w == 1 && a->pad_h == a->pad_w && a->pad_h <= 2 &&
           d->x[0].dim[3] % WINOGRAD_LANES == 0 && a->out_channels % WINOGRAD_LANES == 0;
}

static err_t winograd_plan(const conv_impl_t *impl, const conv_problem_t *problem, void **out,
                           size_t *n_workspace_bytes)
{
    winograd_plan_t *p;
    (void)impl;
    TRY(mem_new(sizeof *p, "the plan of a convolution", &p));
    winograd_plan_make(problem, p);
    *n_workspace_bytes = p->n_bytes;
    *out = p;
    return ERR_OK;
}

/* The same matrices of a thread. */
static winograd_matrices_t of_thread(winograd_matrices_t m, size_t n_bytes)
{
    m.data += (size_t)omp_get_thread_num() * n_bytes / sizeof *m.data;
    return m;
}

/* All tiles of the input. */
static void take_all_inputs(const winograd_plan_t *p, const float *x, const winograd_space_t *s)
{
    const int64_t n_parts = winograd_count_parts(p, WINOGRAD_ROWS);
#pragma omp parallel for schedule(static) if (n_parts > 1)
    for (int64_t i = 0; i < n_parts; i++) {
        const winograd_part_t part = winograd_part(p, WINOGRAD_ROWS, i);
        winograd_take_inputs(&part.kind->from, x, s->zeros, part.first, part.count,
                             winograd_rows_from(s->from, part.kind->first + part.first));
    }
}

/* To [from's channels][n of to's, from `first` on]. Forward's columns are the slowest dimension of our
 * weights, hence the transpose. */
static void take_filters(const winograd_plan_t *p, bool forward, const float *weight, int64_t first,
                         int64_t n, const winograd_space_t *s)
{
    int64_t filter = WINOGRAD_TAPS * p->c, row = forward ? direct_padded(direct_isa(), n) : filter;
    winograd_filters_t f = {forward ? p->c : p->k, n, forward ? p->c * row : p->c, row};
    if (forward) direct_isa()->transpose(weight + first * filter, n, filter, s->turned);
    winograd_take_filters(&f, forward ? s->turned : weight + first, !forward, s->filters);
}

/* A run of forward or backward data. */
typedef struct images {
    const winograd_plan_t *p;
    const winograd_space_t *s;
    const float *x;
    float *y;
    winograd_output_t how; /* of channel 0 */
} images_t;

/* Of a part's tiles n channels, from `column` on of a block that begins with channel `first`. */
static void put_part(const images_t *run, const winograd_part_t *part, int64_t first, int64_t column,
                     int64_t n)
{
    const winograd_plan_t *p = run->p;
    const winograd_space_t *s = run->s;
    const winograd_matrices_t to = of_thread(s->to, p->to_bytes);
    const winograd_matrices_t from = p->few ? winograd_rows_from(s->from, part->kind->first + part->first)
                                            : of_thread(s->from, p->from_bytes);
    ASSERT(omp_get_thread_num() < p->n_threads);
    if (!p->few) winograd_take_inputs(&part->kind->from, run->x, s->zeros, part->first, part->count, from);
    for (int i = 0; i < WINOGRAD_POINTS; i++)
        if (winograd_uses(&part->kind->to, i))
            direct_isa()->product(
                &(direct_product_t){.a = from.data + i * from.plane,
                                    .b = s->filters.data + i * s->filters.plane + column * p->n_in,
                                    .c = to.data + i * to.plane,
                                    .n_rows = part->count,
                                    .n_columns = n,
                                    .n_steps = p->n_in,
                                    .a_row = from.row,
                                    .a_step = 1,
                                    .b_panel = p->n_in * DIRECT_PANEL,
                                    .b_step = DIRECT_PANEL,
                                    .c_row = to.row});
    winograd_grid_t grid = part->kind->to;
    winograd_output_t how = run->how;
    grid.channels = n;
    if (how.bias) how.bias += first + column;
    winograd_put_outputs(&grid, to, &how, part->first, part->count, run->y + first + column);
}

static void run_images(const winograd_plan_t *p, bool forward, const conv_buffers_t *b,
                       const winograd_space_t *s)
{
    const images_t run = {
        p,
        s,
        forward ? b->x : b->dy,
        forward ? b->y : b->dx,
        {.bias = forward ? b->bias : NULL, .relu = forward && b->relu, .add = !forward && b->add_dx}};
    const int64_t n_parts = winograd_count_parts(p, p->chunk);
    /* Few tiles may be fewer parts than threads, which then share channels, too. */
    const int64_t columns = p->few && p->n_threads > 1 ? 2 * DIRECT_PANEL : p->block;
    if (p->few) take_all_inputs(p, run.x, s);
    for (int64_t first = 0; first < p->n_out; first += p->block) {
        const int64_t n = loop_count(first, p->n_out, p->block);
        take_filters(p, forward, b->weight, first, n, s);
#pragma omp parallel for collapse(2) schedule(static) if (n_parts > 1 || n > columns)
        for (int64_t i = 0; i < n_parts; i++)
            for (int64_t column = 0; column < n; column += columns) {
                const winograd_part_t part = winograd_part(p, p->chunk, i);
                put_part(&run, &part, first, column, loop_count(column, n, columns));
            }
    }
}

/* Transforms a part of dy's tiles, and of x's unless they are there. */
static void take_part(const winograd_plan_t *p, const conv_buffers_t *b, const winograd_space_t *s,
                      const winograd_part_t *part, int64_t first_filter, int64_t n)
{
    winograd_grid_t to = part->kind->to;
    to.channels = n;
#pragma omp parallel for schedule(static) if (part->count > WINOGRAD_ROWS)
    for (int64_t i = 0; i < part->count; i += WINOGRAD_ROWS) {
        const int64_t first = part->first + i, count = loop_count(i, part->count, WINOGRAD_ROWS);
        winograd_take_outputs(&to, (const float *)b->dy + first_filter, s->zeros, first, count,
                              winograd_rows_from(s->to, i));
        if (!p->few)
            winograd_take_inputs(&part->kind->from, b->x, s->zeros, first, count,
                                 winograd_rows_from(s->from, i));
    }
}

/* Adds a part of the tiles to the matrices of n filters, a panel of channels at a time. */
static void add_part(const winograd_plan_t *p, const winograd_space_t *s, const winograd_part_t *part,
                     int64_t n, bool add)
{
    const winograd_matrices_t from =
        p->few ? winograd_rows_from(s->from, part->kind->first + part->first) : s->from;
#pragma omp parallel for collapse(2) schedule(static)
    for (int i = 0; i < WINOGRAD_POINTS; i++)
        for (int64_t c = 0; c < p->c; c += DIRECT_PANEL) {
            if (!winograd_uses(&part->kind->to, i)) continue;
            direct_isa()->product(
                &(direct_product_t){.a = s->to.data + i * s->to.plane,
                                    .b = from.data + i * from.plane + c / DIRECT_PANEL * from.panel,
                                    .c = s->filters.data + i * s->filters.plane + c * n,
                                    .n_rows = n,
                                    .n_columns = loop_count(c, p->c, DIRECT_PANEL),
                                    .n_steps = part->count,
                                    .a_panel = s->to.panel,
                                    .a_step = s->to.row,
                                    .b_step = from.row,
                                    .c_row = DIRECT_PANEL,
                                    .add = add});
        }
}

static void run_weights(const winograd_plan_t *p, const conv_buffers_t *b, const winograd_space_t *s)
{
    const int64_t n_parts = winograd_count_parts(p, p->chunk);
    const winograd_grid_t *first_kind = &p->kinds[0].to;
    const bool whole = !first_kind->half_h && !first_kind->half_w; /* the first part writes all matrices */
    if (p->few) take_all_inputs(p, b->x, s);
    for (int64_t filter = 0; filter < p->k; filter += p->block) {
        const int64_t n = loop_count(filter, p->k, p->block);
        if (!whole) memset(s->filters.data, 0, p->turned - p->filters);
        for (int64_t i = 0; i < n_parts; i++) {
            const winograd_part_t part = winograd_part(p, p->chunk, i);
            take_part(p, b, s, &part, filter, n);
            add_part(p, s, &part, n, i > 0 || !whole);
        }
        const winograd_filters_t f = {n, p->c, p->c, WINOGRAD_TAPS * p->c};
        winograd_put_filters(&f, s->filters, b->add_dweight,
                             (float *)b->dweight + filter * WINOGRAD_TAPS * p->c);
    }
}

static err_t winograd_run(const void *plan_, const conv_problem_t *problem, const conv_buffers_t *b,
                          void *workspace)
{
    const winograd_plan_t *p = plan_;
    const winograd_space_t s = winograd_space(p, workspace);
    if (!p->sums) {
        run_images(p, problem->pass == OP_FORWARD, b, &s);
        return ERR_OK;
    }
    run_weights(p, b, &s);
    if (b->dbias)
        matrix_sum_columns(b->dbias, b->dy, shape_count(problem->desc->y[0]) / p->k, p->k, b->add_dbias);
    return ERR_OK;
}

/* Those of the 36 products, of the tiles that there are. */
static double winograd_macs(const void *plan_, const conv_problem_t *problem)
{
    const winograd_plan_t *p = plan_;
    double n_rows = 0;
    (void)problem;
    for (int kind = 0; kind < p->n_kinds; kind++)
        for (int i = 0; i < WINOGRAD_POINTS; i++)
            if (winograd_uses(&p->kinds[kind].to, i)) n_rows += (double)p->kinds[kind].n_tiles;
    return n_rows * (double)p->k * (double)p->c;
}

static void winograd_unplan(void **plan_)
{
    mem_free(plan_);
}

const conv_impl_t conv_winograd[] = {
    {.name = "winograd/nhwc",
     .variant = "",
     .adds = true,
     .relus = true,
     .fits = winograd_fits,
     .plan = winograd_plan,
     .run = winograd_run,
     .unplan = winograd_unplan,
     .macs = winograd_macs},
    {.name = NULL},
};
