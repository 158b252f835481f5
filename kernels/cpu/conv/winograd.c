/* SPDX-License-Identifier: MIT */
/* 3×3 convolutions of stride 1 by the transforms of winograd_transform.h, in our own layout: oneDNN's
 * Winograd needs blocked images and reads and writes them once more to get them.
 *
 *   forward           y  = Aᵀ[(Bᵀ x B) · (G w Gᵀ)]A
 *   backward data     the same on dy, with filters rotated, channels exchanged and padding 2 − pad
 *   backward weights  dw = Gᵀ[Σ (Bᵀ x B) · (A dy Aᵀ)]G, the derivative of forward with respect to w
 *
 * Data between transform and product should stay in cache. If there are few filters, they are transformed
 * once and tiles are processed in chunks; with many filters and few tiles, all tiles are processed at once
 * and filters in blocks. Chunks and blocks run in order, so no sum depends on thread scheduling. */
#include <string.h>

#include "base/mem.h"
#include "kernels/cpu/conv/conv.h"
#include "kernels/cpu/conv/winograd_transform.h"
#include "kernels/cpu/direct/direct.h"
#include "kernels/cpu/loop.h"
#include "kernels/cpu/matrix.h"
#include "kernels/cpu/onednn.h"

/* Tuned on caches of 1 MB (L2) and 36 MB (L3). The filters' matrices are read again for each chunk, so a
 * chunk is about as large as they are. */
enum {
    CHUNK_LEAST = 3 << 18,
    CHUNK_MOST = 8 << 20,
    MANY_FILTERS = 4 << 20, /* bytes of filter matrices above which filters are processed in blocks */
    MANY_TILES = 10 << 20,  /* … if the matrices of all tiles take at most this many bytes */
    BLOCK_BYTES = 5 << 20,
};

typedef struct winograd_plan {
    winograd_grid_t from, to; /* input and output grid; backward weights: of x and dy */
    int64_t n_tiles, chunk;
    int64_t k, c, n_out, block;                 /* n_out: channels of `to`, taken `block` at a time */
    size_t to_matrices, filters, turned, zeros; /* offsets in the workspace, after from's matrices */
    int64_t from_plane, to_plane, filter_plane;
} winograd_plan_t;

static bool winograd_fits(const conv_impl_t *impl, const conv_problem_t *problem)
{
    const op_desc_t *d = problem->desc;
    const conv2d_attr_t *a = &d->attr.conv2d;
    (void)impl;
    return a->groups == 1 && a->kernel_h == 3 && a->kernel_w == 3 && a->stride_h == 1 && a->stride_w == 1 &&
           a->dilation_h == 1 && a->dilation_w == 1 && a->pad_h == a->pad_w && a->pad_h <= 2 &&
           d->x[0].dim[3] % WINOGRAD_LANES == 0 && a->out_channels % WINOGRAD_LANES == 0;
}

/* Matrices a power of two apart would compete for a few cache sets. */
static int64_t plane_of(int64_t rows, int64_t columns)
{
    return rows * columns + WINOGRAD_LANES;
}

static size_t matrices_bytes(int64_t plane)
{
    return mem_round((size_t)(WINOGRAD_POINTS * plane) * sizeof(float));
}

static void set_shapes(winograd_plan_t *p, const conv_problem_t *problem)
{
    const op_desc_t *d = problem->desc;
    const int64_t *x = d->x[0].dim, *y = d->y[0].dim;
    int64_t pad = d->attr.conv2d.pad_h;
    p->c = x[3], p->k = y[3];
    p->from = (winograd_grid_t){.h = x[1], .w = x[2], .channels = p->c, .pad = pad};
    p->to = (winograd_grid_t){.h = y[1], .w = y[2], .channels = p->k};
    if (problem->pass == OP_BACKWARD_DATA) {
        p->from = (winograd_grid_t){.h = y[1], .w = y[2], .channels = p->k, .pad = 2 - pad};
        p->to = (winograd_grid_t){.h = x[1], .w = x[2], .channels = p->c};
    }
    p->from.pitch = p->from.channels;
    p->to.pitch = p->n_out = p->to.channels;
    p->from.tile_rows = p->to.tile_rows = (p->to.h + WINOGRAD_OUT - 1) / WINOGRAD_OUT;
    p->from.tile_columns = p->to.tile_columns = (p->to.w + WINOGRAD_OUT - 1) / WINOGRAD_OUT;
    p->n_tiles = x[0] * p->to.tile_rows * p->to.tile_columns;
}

/* Chooses chunk and block. */
static void set_chunks(winograd_plan_t *p)
{
    const int64_t number = WINOGRAD_POINTS * (int64_t)sizeof(float); /* bytes of a value in all 36 matrices */
    int64_t filters = number * p->k * p->c, tile = number * (p->k + p->c), bytes = filters / 4 * 3;
    p->chunk = p->n_tiles, p->block = p->n_out;
    if (filters > MANY_FILTERS && number * p->n_tiles * p->from.channels <= MANY_TILES) {
        p->block = BLOCK_BYTES / (number * p->from.channels) / WINOGRAD_LANES * WINOGRAD_LANES;
        if (p->block < WINOGRAD_LANES) p->block = WINOGRAD_LANES;
        if (p->block > p->n_out) p->block = p->n_out;
        return;
    }
    bytes = bytes < CHUNK_LEAST ? CHUNK_LEAST : bytes > CHUNK_MOST ? CHUNK_MOST : bytes;
    if (p->chunk > bytes / tile) p->chunk = bytes / tile;
    if (p->chunk < 1) p->chunk = 1;
}

static err_t winograd_plan(const conv_impl_t *impl, const conv_problem_t *problem, void **out,
                           size_t *n_workspace_bytes)
{
    winograd_plan_t *p;
    (void)impl;
    TRY(mem_new(sizeof *p, "the plan of a convolution", &p));
    set_shapes(p, problem);
    set_chunks(p);
    p->from_plane = plane_of(p->chunk, p->from.channels);
    p->to_plane = plane_of(p->chunk, p->block);
    p->filter_plane = plane_of(p->from.channels, p->block);
    p->to_matrices = matrices_bytes(p->from_plane);
    p->filters = p->to_matrices + matrices_bytes(p->to_plane);
    p->turned = p->filters + matrices_bytes(p->filter_plane);
    int64_t n_turned =
        problem->pass == OP_FORWARD ? WINOGRAD_TAPS * p->c * direct_padded(direct_isa(), p->block) : 0;
    p->zeros = p->turned + mem_round((size_t)n_turned * sizeof(float));
    *n_workspace_bytes = p->zeros + (size_t)(p->c + p->k) * sizeof(float);
    *out = p;
    return ERR_OK;
}

/* Views into the workspace of one run. */
typedef struct space {
    winograd_matrices_t from, to, filters;
    float *turned, *zeros;
} space_t;

static space_t space_of(const winograd_plan_t *p, char *workspace)
{
    space_t s = {.from = {(void *)workspace, p->from_plane},
                 .to = {(void *)(workspace + p->to_matrices), p->to_plane},
                 .filters = {(void *)(workspace + p->filters), p->filter_plane},
                 .turned = (void *)(workspace + p->turned),
                 .zeros = (void *)(workspace + p->zeros)};
    memset(s.zeros, 0, (size_t)(p->c + p->k) * sizeof *s.zeros);
    return s;
}

/* To [from's channels][n of to's, from `first` on]. Forward's columns are the slowest dimension of our
 * weights, hence the transpose. */
static void take_filters(const winograd_plan_t *p, bool forward, const float *weight, int64_t first,
                         int64_t n, const space_t *s)
{
    int64_t filter = WINOGRAD_TAPS * p->c, row = forward ? direct_padded(direct_isa(), n) : filter;
    winograd_filters_t f = {p->from.channels, n, forward ? p->c * row : p->c, row};
    if (forward) direct_isa()->transpose(weight + first * filter, n, filter, s->turned);
    winograd_take_filters(&f, forward ? s->turned : weight + first, !forward, s->filters);
}

/* Forward and backward data: a block of channels of a chunk of tiles. */
static err_t put_block(const winograd_plan_t *p, const conv_problem_t *problem, const conv_buffers_t *b,
                       const space_t *s, int64_t first_tile, int64_t first_channel)
{
    bool forward = problem->pass == OP_FORWARD;
    int64_t count = loop_count(first_tile, p->n_tiles, p->chunk), n_in = p->from.channels;
    float *out = forward ? b->y : b->dx;
    winograd_grid_t to = p->to;
    to.channels = loop_count(first_channel, p->n_out, p->block);
    /* Either there are several chunks or several blocks: with several chunks the one block is transformed
     * once. */
    if (first_tile == 0) take_filters(p, forward, b->weight, first_channel, to.channels, s);
    for (int i = 0; i < WINOGRAD_POINTS; i++)
        E_DNNL(dnnl_sgemm('N', 'N', count, to.channels, n_in, 1, s->from.data + i * p->from_plane, n_in,
                          s->filters.data + i * p->filter_plane, to.channels, 0, s->to.data + i * p->to_plane,
                          to.channels),
               "sgemm, conv2d by Winograd's algorithm");
    const winograd_output_t how = {.bias = forward && b->bias ? (const float *)b->bias + first_channel : NULL,
                                   .relu = forward && b->relu,
                                   .add = !forward && b->add_dx};
    winograd_put_outputs(&to, s->to, &how, first_tile, count, out + first_channel);
    return ERR_OK;
}

static err_t run_images(const winograd_plan_t *p, const conv_problem_t *problem, const conv_buffers_t *b,
                        const space_t *s)
{
    for (int64_t tile = 0; tile < p->n_tiles; tile += p->chunk) {
        winograd_take_inputs(&p->from, problem->pass == OP_FORWARD ? b->x : b->dy, s->zeros, tile,
                             loop_count(tile, p->n_tiles, p->chunk), s->from);
        for (int64_t channel = 0; channel < p->n_out; channel += p->block)
            TRY(put_block(p, problem, b, s, tile, channel));
    }
    return ERR_OK;
}

/* Backward weights: adds a chunk of tiles to the matrices of a block of filters. */
static err_t add_block(const winograd_plan_t *p, const conv_buffers_t *b, const space_t *s,
                       int64_t first_tile, int64_t first_filter)
{
    int64_t count = loop_count(first_tile, p->n_tiles, p->chunk);
    winograd_grid_t to = p->to;
    to.channels = loop_count(first_filter, p->k, p->block);
    winograd_take_outputs(&to, (const float *)b->dy + first_filter, s->zeros, first_tile, count, s->to);
    for (int i = 0; i < WINOGRAD_POINTS; i++)
        E_DNNL(dnnl_sgemm('T', 'N', to.channels, p->c, count, 1, s->to.data + i * p->to_plane, to.channels,
                          s->from.data + i * p->from_plane, p->c, first_tile == 0 ? 0 : 1,
                          s->filters.data + i * p->filter_plane, p->c),
               "sgemm, conv2d weight gradient by Winograd's algorithm");
    if (first_tile + count < p->n_tiles) return ERR_OK;
    winograd_filters_t f = {to.channels, p->c, p->c, WINOGRAD_TAPS * p->c};
    winograd_put_filters(&f, s->filters, b->add_dweight,
                         (float *)b->dweight + first_filter * WINOGRAD_TAPS * p->c);
    return ERR_OK;
}

static err_t run_weights(const winograd_plan_t *p, const conv_buffers_t *b, const space_t *s)
{
    for (int64_t tile = 0; tile < p->n_tiles; tile += p->chunk) {
        winograd_take_inputs(&p->from, b->x, s->zeros, tile, loop_count(tile, p->n_tiles, p->chunk), s->from);
        for (int64_t filter = 0; filter < p->k; filter += p->block) TRY(add_block(p, b, s, tile, filter));
    }
    return ERR_OK;
}

static err_t winograd_run(const void *plan_, const conv_problem_t *problem, const conv_buffers_t *b,
                          void *workspace)
{
    const winograd_plan_t *p = plan_;
    const space_t s = space_of(p, workspace);
    if (problem->pass != OP_BACKWARD_WEIGHTS) return run_images(p, problem, b, &s);
    TRY(run_weights(p, b, &s));
    if (b->dbias)
        matrix_sum_columns(b->dbias, b->dy, shape_count(problem->desc->y[0]) / p->k, p->k, b->add_dbias);
    return ERR_OK;
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
     .unplan = winograd_unplan},
    {.name = NULL},
};
