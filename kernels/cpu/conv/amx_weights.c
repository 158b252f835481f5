/* SPDX-License-Identifier: MIT */
/* Backward weights of a convolution on AMX. dweight[k][tap][c] = Σ over outputs of dy[output][k] · x[input of
 * the tap][c]: a matrix product as deep as there are outputs, with dyᵀ on the left.
 *
 * dy and x are laid out on one grid, counted through rows and images, so that a tap reads x at a fixed
 * distance. dy is 0 between rows and between images; the padding of x goes there, and what is right of one
 * row is left of the next. x is laid out once for each position of its pixels between two strides and, since
 * right tiles hold pairs of rows, once more from the second pixel on for taps at an odd distance. A few
 * images are taken at a time, so that both operands stay in the cache. */
#include "kernels/cpu/conv/amx_weights.h"

#include <string.h>

#include "base/mem.h"
#include "kernels/cpu/amx.h"
#include "kernels/cpu/loop.h"
#include "kernels/cpu/narrow.h"

/* Tuned on caches of 48 KB (L1) and 2 MB (L2). */
enum {
    CHUNK_BYTES = 1 << 20, /* of both operands */
    FEW_SUMS = 1 << 20,    /* bytes */
    SLICE = 8,             /* steps */
    PAIR_BYTES = 64,
};

/* A tap: which layout of x it reads, and from which pair of pixels on. */
typedef struct tap {
    int64_t layout, pair;
} tap_t;

/* The pixels stride·i + place − pad of x, from grid position `odd` on. */
typedef struct layout {
    int64_t place_h, place_w, odd;
} layout_t;

typedef struct weights_plan {
    const amx_t *amx;
    int64_t n, chunk, k, c, n_taps;
    bool merged;                            /* c counts the values of a window's row */
    int64_t grid_h, grid_w, depth, x_depth; /* grid per image; depth of a chunk of dy and of x */
    int64_t left_plane, right_plane;        /* bytes of 16 channels of dy, of a layout of x */
    int64_t c_blocks, n_layouts;
    layout_t *layouts;
    tap_t *taps;
    size_t right, cells, zeros, sums, padded; /* offsets in the workspace, after dy's tiles */
} weights_plan_t;

static int64_t max_of(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* Size of the grid along one axis: at least that of dy, at least the part of x that is read, and large enough
 * that reads beyond it fall into the padding before the next row or image. */
static int64_t grid_of(int64_t x, int64_t y, int64_t kernel, int64_t stride, int64_t pad)
{
    int64_t cells = y;
    for (int64_t place = 0; place < stride && place < kernel; place++) {
        int64_t reach = y + (kernel - 1 - place) / stride;
        int64_t front = pad > place ? (pad - place + stride - 1) / stride : 0;
        int64_t end = (x - 1 + pad - place) / stride + 1;
        cells = max_of(cells, max_of(end < reach ? end : reach, reach - front));
    }
    return cells;
}

static int64_t layout_at(weights_plan_t *p, layout_t wanted)
{
    int64_t i = 0;
    while (i < p->n_layouts && memcmp(&p->layouts[i], &wanted, sizeof wanted) != 0) i++;
    if (i == p->n_layouts) p->layouts[p->n_layouts++] = wanted;
    return i;
}

/* Returns the distance of the furthest tap. */
static int64_t place_taps(weights_plan_t *p, const conv2d_attr_t *a)
{
    int64_t furthest = 0, in_row = p->n_taps / a->kernel_h;
    for (int64_t t = 0; t < p->n_taps; t++) {
        int64_t r = t / in_row, s = t % in_row, away = r / a->stride_h * p->grid_w + s / a->stride_w;
        layout_t wanted = {r % a->stride_h, s % a->stride_w, away % 2};
        p->taps[t] = (tap_t){layout_at(p, wanted), away / 2};
        furthest = max_of(furthest, away);
    }
    return furthest;
}

static void set_shapes(weights_plan_t *p, const op_desc_t *d)
{
    const conv2d_attr_t *a = &d->attr.conv2d;
    const int64_t *x = d->x[0].dim, *y = d->y[0].dim;
    p->merged = x[3] < AMX_COLUMNS && a->kernel_w > 1;
    p->n = x[0], p->k = y[3], p->c = p->merged ? a->kernel_w * x[3] : x[3];
    p->n_taps = p->merged ? a->kernel_h : a->kernel_h * a->kernel_w;
    p->grid_h = grid_of(x[1], y[1], a->kernel_h, a->stride_h, a->pad_h);
    p->grid_w = p->merged ? y[2] : grid_of(x[2], y[2], a->kernel_w, a->stride_w, a->pad_w);
    p->c_blocks = (p->c + AMX_COLUMNS - 1) / AMX_COLUMNS;
    int64_t furthest = place_taps(p, a), cells = p->grid_h * p->grid_w;
    p->chunk = CHUNK_BYTES / (cells * 2 * (p->k + p->c_blocks * AMX_COLUMNS * p->n_layouts));
    p->chunk = p->chunk < 1 ? 1 : p->chunk > p->n ? p->n : p->chunk;
    int64_t n_chunks = (p->n + p->chunk - 1) / p->chunk;
    p->chunk = (p->n + n_chunks - 1) / n_chunks;
    p->depth = loop_round_up(p->chunk * cells, AMX_DEPTH);
    p->x_depth = loop_round_up(p->depth + furthest, 2);
    p->left_plane = p->depth / AMX_DEPTH * AMX_TILE_BYTES;
    p->right_plane = p->x_depth / 2 * PAIR_BYTES;
}

/* Columns of x including its padding. */
static int64_t padded_w(const op_desc_t *d)
{
    return d->x[0].dim[2] + 2 * d->attr.conv2d.pad_w;
}

err_t conv_amx_weights_plan(const conv_problem_t *problem, void **out, size_t *n_workspace_bytes)
{
    const op_desc_t *d = problem->desc;
    size_t n_taps = (size_t)(d->attr.conv2d.kernel_h * d->attr.conv2d.kernel_w), n_floats;
    weights_plan_t *p;
    TRY(mem_new(sizeof *p + n_taps * (sizeof *p->layouts + sizeof *p->taps), "the plan of a convolution",
                &p));
    p->amx = amx_here();
    p->layouts = (layout_t *)(p + 1);
    p->taps = (tap_t *)(p->layouts + n_taps);
    set_shapes(p, d);
    p->right = (size_t)(p->k / AMX_COLUMNS * p->left_plane);
    p->cells = p->right + (size_t)(p->n_layouts * p->c_blocks * p->right_plane);
    p->zeros = p->cells + mem_round((size_t)(p->x_depth + 1) * sizeof(void *));
    n_floats = (size_t)(max_of(p->k, p->c) + AMX_COLUMNS);
    p->sums = p->zeros + mem_round(n_floats * sizeof(float));
    n_floats = p->c % AMX_COLUMNS ? (size_t)(p->k * p->n_taps * p->c_blocks * AMX_COLUMNS) : 0;
    p->padded = p->sums + mem_round(n_floats * sizeof(float));
    n_floats = p->merged ? (size_t)(p->chunk * d->x[0].dim[1] * padded_w(d) * d->x[0].dim[3]) : 0;
    *n_workspace_bytes = p->padded + n_floats * sizeof(float);
    *out = p;
    return ERR_OK;
}

/* Images [n, h, w, channels], and which of their pixels are on the grid: stride·i + offset along each
 * axis. */
typedef struct cells {
    const void *from;
    dtype_t dtype;
    int64_t n, h, w, channels, stride_h, stride_w, offset_h, offset_w;
} cells_t;

/* Pointers to `count` grid positions from `first` on; positions outside the images point to zeros. */
static void find_cells(const weights_plan_t *p, const cells_t *c, int64_t first, int64_t count,
                       const void *zeros, const void **to)
{
    int64_t cell = c->channels * (int64_t)dtype_size(c->dtype);
    int64_t column = first % p->grid_w, row = first / p->grid_w % p->grid_h,
            image = first / p->grid_w / p->grid_h;
    for (int64_t i = 0; i < count; i++) {
        int64_t h = row * c->stride_h + c->offset_h, w = column * c->stride_w + c->offset_w;
        bool inside = image < c->n && h >= 0 && h < c->h && w >= 0 && w < c->w;
        to[i] = inside ? (const char *)c->from + ((image * c->h + h) * c->w + w) * cell : zeros;
        if (++column < p->grid_w) continue;
        column = 0;
        if (++row == p->grid_h) row = 0, image++;
    }
}

typedef struct space {
    char *left, *right;
    const void **cells;
    float *zeros, *sums;
    char *padded;
} space_t;

static void pack_dy(const weights_plan_t *p, const op_desc_t *d, const void *dy, int64_t n, const space_t *s)
{
    const int64_t *y = d->y[0].dim;
    cells_t cells = {dy, d->y_dtype[0], n, y[1], y[2], p->k, 1, 1, 0, 0};
    find_cells(p, &cells, 0, p->depth, s->zeros, s->cells);
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < p->depth; i += AMX_DEPTH)
        for (int64_t k = 0; k < p->k; k += AMX_COLUMNS)
            p->amx->pack_turned(
                s->cells + i, d->y_dtype[0], k,
                (uint16_t *)(s->left + k / AMX_COLUMNS * p->left_plane + i / AMX_DEPTH * AMX_TILE_BYTES));
}

static void pad_rows(const op_desc_t *d, const char *x, int64_t n, char *to)
{
    int64_t cell = d->x[0].dim[3] * (int64_t)dtype_size(d->x_dtype[0]);
    int64_t row = d->x[0].dim[2] * cell, beside = d->attr.conv2d.pad_w * cell;
    for (int64_t i = 0; i < n * d->x[0].dim[1]; i++, x += row, to += row + 2 * beside) {
        memset(to, 0, (size_t)beside);
        memcpy(to + beside, x, (size_t)row);
        memset(to + beside + row, 0, (size_t)beside);
    }
}

enum { PAIRS = 32 /* pairs of pixels taken through all channels at a time */ };

static void pack_x(const weights_plan_t *p, const op_desc_t *d, const void *x, int64_t n, const space_t *s)
{
    const conv2d_attr_t *a = &d->attr.conv2d;
    const int64_t *dim = d->x[0].dim;
    if (p->merged) pad_rows(d, x, n, s->padded);
    for (int64_t j = 0; j < p->n_layouts; j++) {
        const layout_t *l = &p->layouts[j];
        cells_t cells = {x,
                         d->x_dtype[0],
                         n,
                         dim[1],
                         dim[2],
                         dim[3],
                         a->stride_h,
                         a->stride_w,
                         l->place_h - a->pad_h,
                         l->place_w - a->pad_w};
        if (p->merged) cells.from = s->padded, cells.w = padded_w(d), cells.offset_w = 0;
        char *to = s->right + j * p->c_blocks * p->right_plane;
        find_cells(p, &cells, l->odd, p->x_depth, s->zeros, s->cells);
#pragma omp parallel for schedule(static)
        for (int64_t i = 0; i < p->x_depth; i += 2 * PAIRS)
            for (int64_t c = 0; c < p->c_blocks; c++)
                p->amx->pack_pairs(s->cells + i, d->x_dtype[0], loop_count(i, p->x_depth, 2 * PAIRS),
                                   c * AMX_COLUMNS, p->c - c * AMX_COLUMNS,
                                   (uint16_t *)(to + c * p->right_plane + i / 2 * PAIR_BYTES));
    }
}

/* A block of 32 filters and 32 channels, its tap, and a range of steps of the depth. */
typedef struct block {
    int64_t k, c, tap, first, n_steps;
} block_t;

/* Row length of the sums of a filter and tap: c, rounded up to whole tiles. */
static int64_t width_of(const weights_plan_t *p)
{
    return p->c_blocks * AMX_COLUMNS;
}

/* sums: [k][taps][width], initialized at step 0 unless `add`. */
static void multiply_block(const weights_plan_t *p, const space_t *s, const block_t *at, bool add,
                           float *sums)
{
    const amx_tap_t all = {at->first * AMX_TILE_BYTES, at->first * AMX_TILE_BYTES};
    const tap_t *tap = &p->taps[at->tap];
    int64_t width = width_of(p), filter = p->n_taps * width;
    amx_product_t product = {.taps = &all,
                             .n_taps = 1,
                             .n_steps = at->n_steps,
                             .rows = AMX_ROWS,
                             .left_row = 64,
                             .left_step = AMX_TILE_BYTES,
                             .right_step = AMX_TILE_BYTES,
                             .right_second = p->right_plane,
                             .out_row = filter * (int64_t)sizeof(float),
                             .add = add || at->first > 0};
    amx_place_t place = {.right = s->right + (tap->layout * p->c_blocks + at->c) * p->right_plane +
                                  tap->pair * PAIR_BYTES,
                         .n_right = at->c + 1 < p->c_blocks ? 2 : 1,
                         .bias = s->zeros};
    for (int64_t i = 0; i < 2 && at->k + i < p->k / AMX_COLUMNS; i++) {
        place.left[i] = s->left + (at->k + i) * p->left_plane;
        place.out[i] = sums + (at->k + i) * AMX_COLUMNS * filter + at->tap * width + at->c * AMX_COLUMNS;
    }
    p->amx->multiply(&product, &place);
}

NARROW_INLINE void sum_rows(float *restrict sum, const void *restrict dy, int64_t n_rows, int64_t n,
                            bool narrow)
{
    for (int64_t i = 0; i < n; i++) sum[i] = 0;
    for (int64_t row = 0; row < n_rows; row++)
        for (int64_t i = 0; i < n; i++) sum[i] += bf16_round(narrow_take(dy, row * n + i, narrow));
}

/* Column sums of dy, rounded to bfloat16 before they are added. */
LOOP_CLONES(sum_rounded, (float *sum, const void *dy, dtype_t dtype, int64_t n_rows, int64_t n),
            (sum, dy, dtype, n_rows, n))
{
    if (dtype == DTYPE_BF16)
        sum_rows(sum, dy, n_rows, n, true);
    else
        sum_rows(sum, dy, n_rows, n, false);
}

/* If the sums fit L2, a few steps of 32 filters and channels, which fit L1, go through all taps. Otherwise
 * each sum is written once, in memory order. */
static void add_chunk(const weights_plan_t *p, const space_t *s, bool add, float *sums)
{
    int64_t n_steps = p->depth / AMX_DEPTH;
    bool few = p->k * p->n_taps * width_of(p) * (int64_t)sizeof *sums <= FEW_SUMS && p->n_taps > 1;
    int64_t outer_taps = few ? 1 : p->n_taps, inner_taps = few ? p->n_taps : 1;
    int64_t outer_c = few ? p->c_blocks : 1, inner_c = few ? 1 : p->c_blocks, slice = few ? SLICE : n_steps;
#pragma omp parallel for schedule(static) collapse(3)
    for (int64_t k = 0; k < p->k / AMX_COLUMNS; k += 2)
        for (int64_t tap = 0; tap < outer_taps; tap++)
            for (int64_t c = 0; c < outer_c; c += 2) {
                p->amx->begin(AMX_ROWS);
                for (int64_t first = 0; first < n_steps; first += slice)
                    for (int64_t i = 0; i < inner_taps; i++)
                        for (int64_t j = 0; j < inner_c; j += 2) {
                            block_t at = {k, c + j, tap + i, first, loop_count(first, n_steps, slice)};
                            multiply_block(p, s, &at, add, sums);
                        }
                p->amx->end();
            }
}

err_t conv_amx_weights_run(const void *plan, const conv_problem_t *problem, const conv_buffers_t *b,
                           void *workspace)
{
    const weights_plan_t *p = plan;
    const op_desc_t *d = problem->desc;
    char *base = workspace;
    space_t s = {base,
                 base + p->right,
                 (const void **)(base + p->cells),
                 (float *)(base + p->zeros),
                 (float *)(base + p->sums),
                 base + p->padded};
    bool apart = p->c % AMX_COLUMNS != 0;
    int64_t width = width_of(p);
    int64_t x_image = shape_count(d->x[0]) / p->n * (int64_t)dtype_size(d->x_dtype[0]);
    int64_t y_image = shape_count(d->y[0]) / p->n * (int64_t)dtype_size(d->y_dtype[0]);
    memset(s.zeros, 0, (size_t)(max_of(p->k, p->c) + AMX_COLUMNS) * sizeof *s.zeros);
    for (int64_t first = 0; first < p->n; first += p->chunk) {
        int64_t n = loop_count(first, p->n, p->chunk);
        pack_dy(p, d, (const char *)b->dy + first * y_image, n, &s);
        pack_x(p, d, (const char *)b->x + first * x_image, n, &s);
        add_chunk(p, &s, first > 0, apart ? s.sums : b->dweight);
    }
    for (int64_t i = 0; apart && i < p->k * p->n_taps; i++)
        memcpy((float *)b->dweight + i * p->c, s.sums + i * width, (size_t)p->c * sizeof(float));
    if (b->dbias) sum_rounded(b->dbias, b->dy, d->y_dtype[0], shape_count(d->y[0]) / p->k, p->k);
    return ERR_OK;
}
