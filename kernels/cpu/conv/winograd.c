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
#include <stddef.h>
#include <string.h>

#include "base/mem.h"
#include "kernels/cpu/conv/conv.h"
#include "kernels/cpu/conv/winograd_transform.h"
#include "kernels/cpu/direct/direct.h"
#include "kernels/cpu/loop.h"
#include "kernels/cpu/matrix.h"

/* Tiles that a thread transforms, or a product takes, at a time. */
enum { WINOGRAD_KINDS = 4, WINOGRAD_ROWS = 6 };

/* Tiles of one kind, whole or half: their place in the input and in the output grid; backward weights: of x and dy. */
typedef struct winograd_kind {
    winograd_grid_t from, to;
    int64_t n_tiles, first; /* first: of all tiles */
} winograd_kind_t;

typedef struct winograd_plan {
    winograd_kind_t kinds[WINOGRAD_KINDS]; /* whole tiles first */
    int n_kinds;
    bool sums; /* backward weights */
    bool few;  /* tiles: all of them are transformed at once */
    int64_t n_tiles, chunk;
    int64_t k, c, n_in, n_out, block; /* channels of `from` and `to`; `to` is taken `block` at a time */
    int n_threads; /* each has matrices `to` of its own, and `from` unless there are few tiles */
    size_t from_bytes, to_bytes; /* of one thread */
    size_t to_matrices, filters, turned, zeros,
        n_bytes; /* offsets in the workspace, after from's; its size */
    int64_t from_plane, to_plane, filter_plane;
} winograd_plan_t;

/* Matrices in the workspace. Those whose rows are added up have panels, which products then read from front to end. */
typedef struct winograd_space {
    winograd_matrices_t from, to, filters; /* from, to: of thread 0 */
    float *turned, *zeros;
} winograd_space_t;

/* A part of the tiles, all of one kind. */
typedef struct winograd_part {
    const winograd_kind_t *kind;
    int64_t first, count; /* of the kind */
} winograd_part_t;

/* Tuned on caches of 1 MB (L2) and 32 MB (L3). A chunk's matrices stay in L2 while the filters stream by; with many
 * filters it is larger, as they come from further away. Weights read and write the filters' matrices for each chunk,
 * which is about as large as they are. */
enum {
    CHUNK_BYTES = 2 << 20,
    SUM_LEAST = 3 << 18,
    SUM_MOST = 8 << 20,
    MANY_FILTERS = 4 << 20, /* bytes of filter matrices above which filters are processed in blocks */
    MANY_TILES = 10 << 20,  /* … if the matrices of all tiles take at most this many bytes */
    BLOCK_BYTES = 5 << 20,
    FROM_PANEL_BITS = 5, /* DIRECT_PANEL */
    TO_PANEL_BITS = 4,   /* DIRECT_TURNED_PANEL */
};

/* Matrices, and rows, a power of two apart would compete for a few cache sets. */
static int64_t row_stride(int64_t columns)
{
    return columns + WINOGRAD_LANES;
}

static int64_t plane_of(int64_t rows, int64_t row)
{
    return rows * row + WINOGRAD_LANES;
}

static size_t matrices_bytes(int64_t plane)
{
    return mem_round((size_t)(WINOGRAD_POINTS * plane) * sizeof(float));
}

/* The tiles of one dimension: a quarter's rest of one or two pixels is half a tile. */
static int64_t count_tiles(int64_t n, bool half)
{
    const int64_t rest = n % WINOGRAD_OUT;
    return half ? rest == 1 || rest == 2 : n / WINOGRAD_OUT + (rest == 3);
}

static void add_kind(winograd_plan_t *p, int64_t n_images, winograd_grid_t from, winograd_grid_t to,
                     bool half_h, bool half_w)
{
    winograd_grid_t place = {.half_h = half_h,
                             .half_w = half_w,
                             .tile_rows = count_tiles(to.h, half_h),
                             .tile_columns = count_tiles(to.w, half_w),
                             .top = half_h ? count_tiles(to.h, false) * WINOGRAD_OUT : 0,
                             .left = half_w ? count_tiles(to.w, false) * WINOGRAD_OUT : 0};
    const int64_t n_tiles = n_images * place.tile_rows * place.tile_columns;
    if (n_tiles == 0) return;
    winograd_kind_t *kind = &p->kinds[p->n_kinds++];
    *kind = (winograd_kind_t){place, place, n_tiles, p->n_tiles};
    kind->from.h = from.h, kind->from.w = from.w, kind->from.pad = from.pad;
    kind->from.channels = kind->from.pitch = from.channels;
    kind->to.h = to.h, kind->to.w = to.w;
    kind->to.channels = kind->to.pitch = to.channels;
    p->n_tiles += n_tiles;
}

static void set_tiles(winograd_plan_t *p, const conv_problem_t *problem)
{
    const op_desc_t *d = problem->desc;
    const int64_t *x = d->x[0].dim, *y = d->y[0].dim;
    int64_t pad = d->attr.conv2d.pad_h;
    p->c = x[3], p->k = y[3];
    winograd_grid_t from = {.h = x[1], .w = x[2], .channels = p->c, .pad = pad};
    winograd_grid_t to = {.h = y[1], .w = y[2], .channels = p->k};
    if (problem->pass == OP_BACKWARD_DATA) {
        from = (winograd_grid_t){.h = y[1], .w = y[2], .channels = p->k, .pad = 2 - pad};
        to = (winograd_grid_t){.h = x[1], .w = x[2], .channels = p->c};
    }
    p->n_in = from.channels, p->n_out = to.channels;
    for (int i = 0; i < WINOGRAD_KINDS; i++) add_kind(p, x[0], from, to, i & 1, i & 2);
}

/* Chooses chunk and block. */
static void set_chunks(winograd_plan_t *p)
{
    const int64_t number = WINOGRAD_POINTS * (int64_t)sizeof(float); /* bytes of a value in all 36 matrices */
    const int64_t filters = number * p->k * p->c, tile = number * (p->k + p->c);
    p->chunk = p->n_tiles, p->block = p->n_out;
    p->few = filters > MANY_FILTERS && number * p->n_tiles * p->n_in <= MANY_TILES;
    if (p->few) {
        p->block = BLOCK_BYTES / (number * p->n_in) / DIRECT_PANEL * DIRECT_PANEL;
        if (p->block < DIRECT_PANEL) p->block = DIRECT_PANEL;
        if (p->block > p->n_out) p->block = p->n_out;
    }
    if (p->few && p->sums) return;
    int64_t bytes = filters / 4 * 3;
    bytes = bytes < SUM_LEAST ? SUM_LEAST : bytes > SUM_MOST ? SUM_MOST : bytes;
    if (!p->sums) bytes = filters / 8 > CHUNK_BYTES ? filters / 8 : CHUNK_BYTES;
    int64_t chunk = bytes / tile, each = (p->n_tiles + p->n_threads - 1) / p->n_threads;
    if (!p->sums && chunk > each) chunk = each;
    chunk = chunk < WINOGRAD_ROWS ? WINOGRAD_ROWS : chunk / WINOGRAD_ROWS * WINOGRAD_ROWS;
    if (p->chunk > chunk) p->chunk = chunk;
}

static int64_t rows_of_from(const winograd_plan_t *p)
{
    return p->few ? p->n_tiles : p->chunk;
}

static void place_matrices(winograd_plan_t *p, bool turns)
{
    const size_t n_from = p->few ? 1 : (size_t)p->n_threads, word = sizeof(float);
    const int64_t n_turned = turns ? WINOGRAD_TAPS * p->c * direct_padded(direct_isa(), p->block) : 0;
    p->from_plane = plane_of(rows_of_from(p), loop_round_up(row_stride(p->n_in), DIRECT_PANEL));
    p->to_plane = plane_of(p->chunk, row_stride(p->block));
    p->filter_plane = p->sums ? plane_of(p->block, loop_round_up(p->n_in, DIRECT_PANEL))
                              : plane_of(p->n_in, loop_round_up(p->block, DIRECT_PANEL));
    p->from_bytes = matrices_bytes(p->from_plane), p->to_bytes = matrices_bytes(p->to_plane);
    p->to_matrices = n_from * p->from_bytes;
    p->filters = p->to_matrices + (size_t)p->n_threads * p->to_bytes;
    p->turned = p->filters + matrices_bytes(p->filter_plane);
    p->zeros = p->turned + mem_round((size_t)n_turned * word);
    p->n_bytes = p->zeros + (size_t)(p->c + p->k) * word;
}

static void winograd_plan_make(const conv_problem_t *problem, winograd_plan_t *p)
{
    *p = (winograd_plan_t){.sums = problem->pass == OP_BACKWARD_WEIGHTS};
    p->n_threads = p->sums ? 1 : omp_get_max_threads();
    set_tiles(p, problem);
    set_chunks(p);
    place_matrices(p, problem->pass == OP_FORWARD);
}

static winograd_matrices_t matrices_of(void *data, int64_t plane, int64_t rows, int64_t columns,
                                       int panel_bits)
{
    if (!panel_bits) return (winograd_matrices_t){data, plane, row_stride(columns), 0, WINOGRAD_ONE_PANEL};
    const int64_t row = (int64_t)1 << panel_bits;
    return (winograd_matrices_t){data, plane, row, rows * row, panel_bits};
}

static winograd_space_t winograd_space(const winograd_plan_t *p, char *workspace)
{
    winograd_space_t s = {.from = matrices_of(workspace, p->from_plane, rows_of_from(p), p->n_in,
                                              p->sums ? FROM_PANEL_BITS : 0),
                          .to = matrices_of(workspace + p->to_matrices, p->to_plane, p->chunk, p->block,
                                            p->sums ? TO_PANEL_BITS : 0),
                          .filters = {.data = (void *)(workspace + p->filters), .plane = p->filter_plane},
                          .turned = (void *)(workspace + p->turned),
                          .zeros = (void *)(workspace + p->zeros)};
    memset(s.zeros, 0, (size_t)(p->c + p->k) * sizeof *s.zeros);
    return s;
}

/* The number of parts of at most `most` tiles, and part i. */
static int64_t winograd_count_parts(const winograd_plan_t *p, int64_t most)
{
    int64_t n = 0;
    for (int i = 0; i < p->n_kinds; i++) n += (p->kinds[i].n_tiles + most - 1) / most;
    return n;
}

static winograd_part_t winograd_part(const winograd_plan_t *p, int64_t most, int64_t i)
{
    const winograd_kind_t *kind = p->kinds;
    for (int64_t n; i >= (n = (kind->n_tiles + most - 1) / most); i -= n) kind++;
    return (winograd_part_t){kind, i * most, loop_count(i * most, kind->n_tiles, most)};
}

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
