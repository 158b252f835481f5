/* 3×3 convolutions of stride 1 by the transforms of winograd.h, in our own layout: oneDNN's algorithm of this
 * kind wants blocked pictures, and reads and writes them once more to have them. Tiles are taken in chunks
 * whose matrices stay in cache between transform, product and transform. Chunks follow each other, so that no
 * sum depends on how threads are scheduled.
 *
 *   forward           y  = Aᵀ[(Bᵀ x B) · (G w Gᵀ)]A
 *   backward data     the same of dy, the filters turned and their channels exchanged, padding 2 − pad
 *   backward weights  dw = Gᵀ[Σ (Bᵀ x B) · (A dy Aᵀ)]G, the derivative of forward with respect to w */
#include <string.h>

#include "base/mem.h"
#include "kernels/cpu/conv.h"
#include "kernels/cpu/loop.h"
#include "kernels/cpu/matrix.h"
#include "kernels/cpu/onednn.h"
#include "kernels/cpu/winograd.h"

/* Of the matrices of a chunk's tiles, before and after the product; large enough for the filters' own, which
 * are read anew for each chunk, not to matter. */
enum { CHUNK_BYTES = 4 << 20 };

typedef struct winograd_plan {
    winograd_grid_t from, to; /* what tiles are read from, and written to (backward weights: of x and dy) */
    int64_t n_tiles, chunk;
    int64_t k, c;
    int64_t from_plane, to_plane, filter_plane; /* floats from a matrix to the next */
    size_t to_matrices, filters, zeros;         /* where they begin in workspace; from's are first */
} winograd_plan_t;

static bool fits(const conv_impl_t *impl, const conv_problem_t *problem)
{
    const op_desc_t *d = problem->desc;
    const conv2d_attr_t *a = &d->attr.conv2d;
    (void)impl;
    return a->groups == 1 && a->kernel_h == 3 && a->kernel_w == 3 && a->stride_h == 1 && a->stride_w == 1 &&
           a->dilation_h == 1 && a->dilation_w == 1 && a->pad_h == a->pad_w && a->pad_h <= 2 &&
           d->x[0].dim[3] % WINOGRAD_LANES == 0 && a->out_channels % WINOGRAD_LANES == 0;
}

/* Matrices a power of two apart would share few sets of the caches. */
static int64_t plane_of(int64_t rows, int64_t columns)
{
    return rows * columns + WINOGRAD_LANES;
}

static size_t matrices_bytes(int64_t plane)
{
    return mem_round((size_t)(WINOGRAD_POINTS * plane) * sizeof(float));
}

static err_t plan(const conv_impl_t *impl, const conv_problem_t *problem, void **out,
                  size_t *n_workspace_bytes)
{
    const op_desc_t *d = problem->desc;
    const int64_t *x = d->x[0].dim, *y = d->y.dim;
    int64_t pad = d->attr.conv2d.pad_h;
    winograd_plan_t *p;
    (void)impl;
    TRY(mem_new(sizeof *p, "the plan of a convolution", &p));
    p->c = x[3], p->k = y[3];
    p->from = (winograd_grid_t){.h = x[1], .w = x[2], .channels = p->c, .pad = pad};
    p->to = (winograd_grid_t){.h = y[1], .w = y[2], .channels = p->k};
    if (problem->pass == OP_BACKWARD_DATA) {
        p->from = (winograd_grid_t){.h = y[1], .w = y[2], .channels = p->k, .pad = 2 - pad};
        p->to = (winograd_grid_t){.h = x[1], .w = x[2], .channels = p->c};
    }
    p->from.tile_rows = p->to.tile_rows = (p->to.h + WINOGRAD_OUT - 1) / WINOGRAD_OUT;
    p->from.tile_columns = p->to.tile_columns = (p->to.w + WINOGRAD_OUT - 1) / WINOGRAD_OUT;
    p->n_tiles = x[0] * p->to.tile_rows * p->to.tile_columns;
    p->chunk = CHUNK_BYTES / (WINOGRAD_POINTS * (p->c + p->k) * (int64_t)sizeof(float));
    if (p->chunk > p->n_tiles) p->chunk = p->n_tiles;
    if (p->chunk < 1) p->chunk = 1;
    p->from_plane = plane_of(p->chunk, p->from.channels);
    p->to_plane = plane_of(p->chunk, p->to.channels);
    p->filter_plane = plane_of(p->k, p->c);
    p->to_matrices = matrices_bytes(p->from_plane);
    p->filters = p->to_matrices + matrices_bytes(p->to_plane);
    p->zeros = p->filters + matrices_bytes(p->filter_plane);
    *n_workspace_bytes = p->zeros + (size_t)(p->c + p->k) * sizeof(float);
    *out = p;
    return ERR_OK;
}

/* Forward and backward data. */
static err_t run_pictures(const winograd_plan_t *p, const conv_problem_t *problem, const conv_buffers_t *b,
                          char *workspace)
{
    bool forward = problem->pass == OP_FORWARD;
    float *from = (void *)workspace, *to = (void *)(workspace + p->to_matrices);
    float *filters = (void *)(workspace + p->filters), *zeros = (void *)(workspace + p->zeros);
    int64_t n_in = p->from.channels, n_out = p->to.channels;
    memset(zeros, 0, (size_t)(p->c + p->k) * sizeof *zeros);
    winograd_take_filters(b->weight, p->k, p->c, !forward, filters, p->filter_plane);
    for (int64_t first = 0; first < p->n_tiles; first += p->chunk) {
        int64_t count = loop_count(first, p->n_tiles, p->chunk);
        winograd_take_inputs(&p->from, forward ? b->x : b->dy, zeros, first, count, from, p->from_plane);
        for (int i = 0; i < WINOGRAD_POINTS; i++)
            E_DNNL(dnnl_sgemm('N', forward ? 'T' : 'N', count, n_out, n_in, 1, from + i * p->from_plane, n_in,
                              filters + i * p->filter_plane, p->c, 0, to + i * p->to_plane, n_out),
                   "sgemm, conv2d by Winograd's algorithm");
        winograd_put_outputs(&p->to, to, p->to_plane, forward ? b->bias : NULL, first, count,
                             forward ? b->y : b->dx);
    }
    return ERR_OK;
}

static err_t run_weights(const winograd_plan_t *p, const conv_buffers_t *b, char *workspace)
{
    float *x = (void *)workspace, *dy = (void *)(workspace + p->to_matrices);
    float *filters = (void *)(workspace + p->filters), *zeros = (void *)(workspace + p->zeros);
    memset(zeros, 0, (size_t)(p->c + p->k) * sizeof *zeros);
    for (int64_t first = 0; first < p->n_tiles; first += p->chunk) {
        int64_t count = loop_count(first, p->n_tiles, p->chunk);
        winograd_take_inputs(&p->from, b->x, zeros, first, count, x, p->from_plane);
        winograd_take_outputs(&p->to, b->dy, zeros, first, count, dy, p->to_plane);
        for (int i = 0; i < WINOGRAD_POINTS; i++)
            E_DNNL(dnnl_sgemm('T', 'N', p->k, p->c, count, 1, dy + i * p->to_plane, p->k,
                              x + i * p->from_plane, p->c, first == 0 ? 0 : 1, filters + i * p->filter_plane,
                              p->c),
                   "sgemm, conv2d weight gradient by Winograd's algorithm");
    }
    winograd_put_filters(filters, p->filter_plane, p->k, p->c, b->dweight);
    if (b->dbias)
        matrix_sum_columns(b->dbias, b->dy,
                           p->n_tiles / (p->to.tile_rows * p->to.tile_columns) * p->to.h * p->to.w, p->k);
    return ERR_OK;
}

static err_t run(const void *plan_, const conv_problem_t *problem, const conv_buffers_t *b, void *workspace)
{
    return problem->pass == OP_BACKWARD_WEIGHTS ? run_weights(plan_, b, workspace)
                                                : run_pictures(plan_, problem, b, workspace);
}

static void unplan(void **plan_)
{
    mem_free(plan_);
}

const conv_impl_t conv_winograd[] = {
    {"winograd/nhwc", "", false, false, fits, plan, run, unplan},
    {.name = NULL},
};
