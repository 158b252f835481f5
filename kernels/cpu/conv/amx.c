/* SPDX-License-Identifier: MIT */
/* Convolutions in bfloat16 on AMX (amx.h): forward, and backward data as one forward convolution per position
 * of a pixel between two strides (with stride 1 there is one).
 *
 * Images are packed with their padding, so that the left tiles of a row of outputs are rows of the packed
 * image, a stride apart: windows are not copied. Only if a pixel has fewer channels than a tile is deep are
 * the rows of windows copied; they take the place of pixels. A few images are packed at a time and stay in
 * the cache while they are multiplied. bfloat16 images that need neither padding nor rounding are used as
 * left tiles directly. */
#include <omp.h>
#include <string.h>

#include "base/mem.h"
#include "kernels/cpu/amx.h"
#include "kernels/cpu/conv/conv.h"
#include "kernels/cpu/loop.h"

/* Outputs that share the same taps: every stride-th pixel of an image, starting at the phase's first. */
typedef struct phase {
    int64_t rows, columns;
    int64_t out;     /* the first output, in values from the start of the image */
    int64_t in;      /* the input of its tap at offset 0, in bytes from the start of the packed image */
    int tile_rows;   /* outputs per tile, all in one row */
    int64_t n_tiles; /* per row; the last may overlap the one before */
    int64_t first_tap, n_taps;
} phase_t;

typedef struct amx_plan {
    const amx_t *amx;
    int64_t n, chunk;                      /* images, and how many are packed at a time */
    int64_t h, w, c, every;                /* input image; every `every`th pixel is read */
    int64_t top, left, packed_h, packed_w; /* of a packed image, zeros around it */
    int64_t window, window_every;          /* pixels packed as one, and the step between such; 1 and 0 */
    int64_t cell, image_bytes;             /* values of a packed pixel; bytes of an image */
    int64_t in_row, in_column;             /* bytes between the inputs of two outputs */
    int64_t out_row, out_column;           /* values */
    int64_t out_image, n_out;              /* values of an output image; its channels */
    dtype_t in_dtype, out_dtype;
    int64_t in_cell, out_value; /* bytes of an input pixel, of an output value */
    bool in_place;              /* used as it is, not packed */
    int64_t n_steps, n_blocks, block_bytes, n_phases;
    bool stream;
    phase_t *phases;
    amx_tap_t *taps;
    size_t images; /* offset of the packed images in the workspace, after the weights */
} amx_plan_t;

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

/* Derives all fields but amx, chunk, image_bytes, n_blocks, block_bytes, stream and images from the
 * description. `phases` has room for stride_h · stride_w of them, `taps` for all taps of a filter. */
static void conv_amx_shape(const conv_problem_t *problem, amx_plan_t *p)
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

/* Backward weights. dweight[k][tap][c] = Σ over outputs of dy[output][k] · x[input of the tap][c]: a matrix product as
 * deep as there are outputs, with dyᵀ on the left.
 *
 * dy and x are laid out on one grid, counted through rows and images, so that a tap reads x at a fixed
 * distance. dy is 0 between rows and between images; the padding of x goes there, and what is right of one
 * row is left of the next. x is laid out once for each position of its pixels between two strides and, since
 * right tiles hold pairs of rows, once more from the second pixel on for taps at an odd distance. A few
 * images are taken at a time, so that both operands stay in the cache. */

/* Tuned on caches of 48 KB (L1) and 2 MB (L2). */
enum {
    WEIGHTS_CHUNK_BYTES = 1 << 20, /* of both operands */
    FEW_SUMS = 1 << 20,            /* bytes */
    SLICE = 8,                     /* steps */
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
    p->chunk = WEIGHTS_CHUNK_BYTES / (cells * 2 * (p->k + p->c_blocks * AMX_COLUMNS * p->n_layouts));
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

static err_t conv_amx_weights_plan(const conv_problem_t *problem, void **out, size_t *n_workspace_bytes)
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

static err_t conv_amx_weights_run(const void *plan, const conv_problem_t *problem, const conv_buffers_t *b,
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

/* Tuned on a 2 MB L2 cache. */
enum {
    BLOCK = 2 * AMX_COLUMNS,
    CHUNK_BYTES = 1 << 18, /* of packed images per thread; at least one image */
    FEW_FILTERS = 1 << 19, /* bytes */
    GROUP = 8,             /* tiles */
    STREAM_BYTES = 4 << 20 /* outputs this large are not in any cache when they are read */
};

/* The operands and the output of a range of images. */
typedef struct task {
    const char *image, *filters; /* packed */
    const float *bias;
    char *out;
} task_t;

static bool conv_amx_fits(const conv_impl_t *impl, const conv_problem_t *problem)
{
    const op_desc_t *d = problem->desc;
    const conv2d_attr_t *a = &d->attr.conv2d;
    bool data = problem->pass == OP_BACKWARD_DATA, dense = a->dilation_h == 1 && a->dilation_w == 1;
    (void)impl;
    return d->compute == DTYPE_BF16 && amx_here() && a->groups == 1 && dense &&
           a->out_channels % AMX_COLUMNS == 0 && (!data || d->x[0].dim[3] % AMX_COLUMNS == 0);
}

static err_t conv_amx_plan(const conv_impl_t *impl, const conv_problem_t *problem, void **out,
                           size_t *n_workspace_bytes)
{
    const conv2d_attr_t *a = &problem->desc->attr.conv2d;
    size_t n_taps = (size_t)a->kernel_h * (size_t)a->kernel_w,
           n_phases = (size_t)a->stride_h * (size_t)a->stride_w;
    amx_plan_t *p;
    (void)impl;
    if (problem->pass == OP_BACKWARD_WEIGHTS) return conv_amx_weights_plan(problem, out, n_workspace_bytes);
    TRY(mem_new(sizeof *p + n_phases * sizeof *p->phases + n_taps * sizeof *p->taps,
                "the plan of a convolution", &p));
    p->phases = (phase_t *)(p + 1);
    p->taps = (amx_tap_t *)(p->phases + n_phases);
    p->amx = amx_here();
    conv_amx_shape(problem, p);
    p->image_bytes = p->packed_h * p->packed_w * p->cell * 2;
    if (!p->in_place) p->image_bytes = (int64_t)mem_round((size_t)p->image_bytes);
    p->chunk = CHUNK_BYTES / p->image_bytes;
    p->chunk = (p->chunk < 1 ? 1 : p->chunk) * omp_get_max_threads();
    if (p->chunk > p->n) p->chunk = p->n;
    p->stream =
        p->n * p->out_image * p->out_value >= STREAM_BYTES && p->n_out * p->out_value % MEM_ALIGN == 0;
    p->n_blocks = (p->n_out + BLOCK - 1) / BLOCK;
    int64_t n_packed_taps = problem->pass == OP_FORWARD ? p->phases[0].n_taps : (int64_t)n_taps;
    p->block_bytes = n_packed_taps * p->n_steps * 2 * AMX_TILE_BYTES;
    p->images = (size_t)(p->n_blocks * p->block_bytes) + (size_t)p->n_out * sizeof(float);
    p->images = mem_round(p->images);
    *n_workspace_bytes = p->images + (p->in_place ? 0 : (size_t)(p->chunk * p->image_bytes));
    *out = p;
    return ERR_OK;
}

/* The right tile of a column, tap and step in [blocks][taps][steps][2 × 16 columns]. */
static uint16_t *tile_of(const amx_plan_t *p, uint16_t *tiles, int64_t column, int64_t tap, int64_t step)
{
    int64_t tile = (tap * p->n_steps + step) * 2 + column / AMX_COLUMNS % 2;
    return tiles + (column / BLOCK * p->block_bytes + tile * AMX_TILE_BYTES) / (int64_t)sizeof *tiles;
}

/* Forward: a column is a filter, contiguous in memory. */
static void pack_filters(const amx_plan_t *p, const op_desc_t *d, const float *weight, uint16_t *to)
{
    int64_t n_taps = p->phases[0].n_taps, filter = shape_count(d->param[0]) / p->n_out, tap = filter / n_taps;
#pragma omp parallel for schedule(static)
    for (int64_t column = 0; column < p->n_out; column += AMX_COLUMNS)
        for (int64_t t = 0; t < n_taps; t++)
            for (int64_t i = 0; i < p->n_steps; i++)
                p->amx->pack_columns(weight + column * filter + t * tap + i * AMX_DEPTH, filter,
                                     loop_count(i * AMX_DEPTH, tap, AMX_DEPTH), tile_of(p, to, column, t, i));
}

/* Backward data: the same with input and output channels exchanged. */
static void pack_exchanged(const amx_plan_t *p, const op_desc_t *d, const float *weight, const float *zeros,
                           uint16_t *to)
{
    int64_t filter = shape_count(d->param[0]) / p->c, n_taps = filter / p->n_out;
#pragma omp parallel for schedule(static) collapse(2)
    for (int64_t t = 0; t < n_taps; t++)
        for (int64_t i = 0; i < p->n_steps; i++) {
            const void *rows[AMX_DEPTH];
            for (int64_t k = 0; k < AMX_DEPTH; k++) {
                int64_t row = i * AMX_DEPTH + k;
                rows[k] = row < p->c ? weight + row * filter + t * p->n_out : zeros;
            }
            for (int64_t column = 0; column < p->n_out; column += AMX_COLUMNS)
                p->amx->pack_pairs(rows, DTYPE_F32, AMX_DEPTH, column, AMX_COLUMNS,
                                   tile_of(p, to, column, t, i));
        }
}

/* Packs a row of every window, zero outside the image. */
static void pack_windows(const amx_plan_t *p, const char *row, uint16_t *to)
{
    memset(to, 0, (size_t)(p->packed_w * p->cell) * sizeof *to);
    for (int64_t i = 0; i < p->packed_w; i++, to += p->cell) {
        int64_t first = i * p->window_every - p->left, end = first + p->window,
                before = first < 0 ? -first : 0;
        int64_t n = ((end < p->w ? end : p->w) - first - before) * p->c;
        if (n > 0)
            p->amx->pack_row(row + (first + before) * p->in_cell, p->in_dtype, n, n, to + before * p->c);
    }
}

static void pack_image_row(const amx_plan_t *p, const char *image, int64_t row, uint16_t *to)
{
    int64_t above = (row - p->top) * p->every, values = p->packed_w * p->cell;
    if (row < p->top || above >= p->h) {
        memset(to, 0, (size_t)values * sizeof *to);
        return;
    }
    const char *from = image + above * p->w * p->in_cell;
    if (p->window_every) {
        pack_windows(p, from, to);
        return;
    }
    int64_t n = (p->w + p->every - 1) / p->every, behind = (p->left + n) * p->cell;
    memset(to, 0, (size_t)(p->left * p->cell) * sizeof *to);
    if (p->cell == p->c && p->every == 1)
        p->amx->pack_row(from, p->in_dtype, n * p->c, n * p->c, to + p->left * p->cell);
    else
        for (int64_t i = 0; i < n; i++)
            p->amx->pack_row(from + i * p->every * p->in_cell, p->in_dtype, p->c, p->cell,
                             to + (p->left + i) * p->cell);
    memset(to + behind, 0, (size_t)(values - behind) * sizeof *to);
}

static void pack_images(const amx_plan_t *p, const char *from, int64_t n, char *to)
{
#pragma omp parallel for schedule(static) collapse(2)
    for (int64_t i = 0; i < n; i++)
        for (int64_t row = 0; row < p->packed_h; row++)
            pack_image_row(p, from + i * p->h * p->w * p->in_cell, row,
                           (uint16_t *)(to + i * p->image_bytes) + row * p->packed_w * p->cell);
}

/* One block of columns times the tiles [first, end) of a phase, two at a time. */
static void multiply_tiles(const amx_plan_t *p, const phase_t *phase, const task_t *task, int64_t block,
                           int64_t first, int64_t end)
{
    amx_product_t product = {.taps = p->taps + phase->first_tap,
                             .n_taps = phase->n_taps,
                             .n_steps = p->n_steps,
                             .rows = phase->tile_rows,
                             .left_row = p->in_column,
                             .left_step = AMX_DEPTH * 2,
                             .right_step = 2 * AMX_TILE_BYTES,
                             .right_second = AMX_TILE_BYTES,
                             .out_row = p->out_column * p->out_value,
                             .out_dtype = p->out_dtype,
                             .stream = p->stream};
    int64_t channel = block * BLOCK;
    for (int64_t tile = first; tile < end; tile += 2) {
        amx_place_t place = {.right = task->filters + block * p->block_bytes,
                             .n_right = p->n_out - channel < BLOCK ? 1 : 2,
                             .bias = task->bias + channel};
        for (int64_t i = 0; i < 2 && tile + i < end; i++) {
            int64_t row = (tile + i) / phase->n_tiles,
                    column = (tile + i) % phase->n_tiles * phase->tile_rows;
            if (column > phase->columns - phase->tile_rows) column = phase->columns - phase->tile_rows;
            place.left[i] = task->image + phase->in + row * p->in_row + column * p->in_column;
            place.out[i] =
                task->out + (phase->out + row * p->out_row + column * p->out_column + channel) * p->out_value;
        }
        p->amx->multiply(&product, &place);
    }
}

/* All phases of one image, `group` tiles at a time through the blocks [first, end). */
static void multiply_image(const amx_plan_t *p, const task_t *task, int64_t first, int64_t end, int64_t group)
{
    for (int64_t i = 0; i < p->n_phases; i++) {
        const phase_t *phase = &p->phases[i];
        int64_t n_tiles = phase->rows * phase->n_tiles;
        p->amx->begin(phase->tile_rows);
        for (int64_t tile = 0; tile < n_tiles; tile += group)
            for (int64_t block = first; block < end; block++)
                multiply_tiles(p, phase, task, block, tile, tile + loop_count(tile, n_tiles, group));
        p->amx->end();
    }
}

/* If the filters fit the cache, all channels of a few outputs are computed together and written contiguously.
 * Otherwise one block of filters stays in the cache while all images pass. */
static void multiply_images(const amx_plan_t *p, const task_t *all, int64_t n)
{
    bool few = p->n_blocks * p->block_bytes <= FEW_FILTERS;
    int64_t at_once = few ? p->n_blocks : 1, group = few ? GROUP : INT64_MAX;
#pragma omp parallel for schedule(static) collapse(2)
    for (int64_t block = 0; block < p->n_blocks; block += at_once)
        for (int64_t i = 0; i < n; i++) {
            task_t task = *all;
            task.image += i * p->image_bytes;
            task.out += i * p->out_image * p->out_value;
            multiply_image(p, &task, block, block + at_once, group);
        }
}

static err_t conv_amx_run(const void *plan_, const conv_problem_t *problem, const conv_buffers_t *b,
                          void *workspace)
{
    if (problem->pass == OP_BACKWARD_WEIGHTS) return conv_amx_weights_run(plan_, problem, b, workspace);
    const amx_plan_t *p = plan_;
    bool forward = problem->pass == OP_FORWARD;
    const char *from = forward ? b->x : b->dy;
    float *zeros = (float *)((char *)workspace + p->n_blocks * p->block_bytes);
    task_t task = {.filters = workspace, .bias = forward && b->bias ? b->bias : zeros};
    memset(zeros, 0, (size_t)p->n_out * sizeof *zeros);
    if (forward)
        pack_filters(p, problem->desc, b->weight, workspace);
    else
        pack_exchanged(p, problem->desc, b->weight, zeros, workspace);
    for (int64_t first = 0; first < p->n; first += p->chunk) {
        int64_t n = loop_count(first, p->n, p->chunk);
        char *packed = (char *)workspace + p->images;
        task.image = from + first * p->h * p->w * p->in_cell;
        task.out = (char *)(forward ? b->y : b->dx) + first * p->out_image * p->out_value;
        if (!p->in_place) {
            pack_images(p, task.image, n, packed);
            task.image = packed;
        }
        multiply_images(p, &task, n);
    }
    return ERR_OK;
}

static void conv_amx_unplan(void **plan_)
{
    mem_free(plan_);
}

const conv_impl_t conv_amx[] = {
    {.name = "amx/bf16",
     .variant = "",
     .rounds = true,
     .fits = conv_amx_fits,
     .plan = conv_amx_plan,
     .run = conv_amx_run,
     .unplan = conv_amx_unplan},
    {.name = NULL},
};

const conv_impl_t *conv_amx_rule(const conv_problem_t *problem)
{
    return conv_amx_fits(conv_amx, problem) ? conv_amx : NULL;
}
