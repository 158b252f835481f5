/* Convolutions in bfloat16 on AMX (amx.h); backward weights are conv_amx_weights.h's. Here: forward, and
 * backward data, which is one forward for each place of a picture's cell between two strides (with stride 1
 * there is one place).
 *
 * Pictures are packed with their padding, so that the left tiles of a row of outputs are rows of the packed
 * picture, a stride apart: no copy of windows is made. Only where a cell has fewer channels than a tile is
 * deep, the rows of windows are copied, and are the cells. A few pictures at a time are packed,
 * and stay in the cache while they are multiplied. Pictures in bfloat16 that need neither padding nor
 * rounding are left tiles as they are. */
#include <string.h>

#include "base/mem.h"
#include "kernels/cpu/amx.h"
#include "kernels/cpu/conv.h"
#include "kernels/cpu/conv_amx_weights.h"
#include "kernels/cpu/loop.h"

/* Measured with a cache of 2 MB. */
enum {
    BLOCK = 2 * AMX_COLUMNS,
    CHUNK_BYTES = 1 << 20, /* of packed pictures */
    FEW_FILTERS = 1 << 19, /* bytes */
    GROUP = 8,             /* tiles */
    STREAM_BYTES = 4 << 20 /* of what is written, from which on nobody finds it in a cache */
};

/* Outputs with the same taps: every stride-th cell of a picture, from its own first one on. */
typedef struct phase {
    int64_t rows, columns;
    int64_t out;     /* the first one, in values from the picture's begin */
    int64_t in;      /* what its tap at offset 0 reads, in bytes from the packed picture's begin */
    int tile_rows;   /* outputs of a tile, all of one row */
    int64_t n_tiles; /* in a row; the last may lie over the one before */
    int64_t first_tap, n_taps;
} phase_t;

typedef struct amx_plan {
    const amx_t *amx;
    int64_t n, chunk;                      /* pictures, and how many of them at a time */
    int64_t h, w, c, every;                /* a picture that is read, and of which cells: every `every`th */
    int64_t top, left, packed_h, packed_w; /* packed, with zeros around */
    int64_t window, window_every; /* cells that are packed as one, and from one such to the next; 1 and 0 */
    int64_t cell, picture_bytes;  /* values of a packed one */
    int64_t in_row, in_column;    /* bytes from output to output */
    int64_t out_row, out_column;  /* values */
    int64_t out_picture, n_out;   /* values of a picture that is written; its channels */
    dtype_t in_dtype, out_dtype;
    bool in_place; /* nothing is packed */
    int64_t n_steps, n_blocks, block_bytes, n_phases;
    bool stream;
    phase_t *phases;
    amx_tap_t *taps;
    size_t pictures; /* where packed pictures begin in workspace, behind the weights */
} amx_plan_t;

/* What meets what. */
typedef struct task {
    const char *picture, *filters; /* packed */
    const float *bias, *zeros;
    char *out;
} task_t;

static bool fits(const conv_impl_t *impl, const conv_problem_t *problem)
{
    const op_desc_t *d = problem->desc;
    const conv2d_attr_t *a = &d->attr.conv2d;
    bool data = problem->pass == OP_BACKWARD_DATA, dense = a->dilation_h == 1 && a->dilation_w == 1;
    (void)impl;
    return d->compute == DTYPE_BF16 && amx_here() && a->groups == 1 && dense &&
           a->out_channels % AMX_COLUMNS == 0 && (!data || d->x[0].dim[3] % AMX_COLUMNS == 0);
}

/* The cells of a window's row are packed as one cell. */
static bool merges(const op_desc_t *d)
{
    return d->x[0].dim[3] < AMX_DEPTH && d->attr.conv2d.kernel_w > 1;
}

/* Each output is of one cell. */
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
    const int64_t *x = d->x[0].dim, *y = d->y.dim;
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
    p->out_row = y[2] * y[3], p->out_column = y[3];
    p->n_phases = 1;
    phase_t *phase = &p->phases[0];
    *phase =
        (phase_t){.rows = y[1], .columns = y[2], .n_taps = merged ? a->kernel_h : a->kernel_h * a->kernel_w};
    /* Without windows and between no others all cells are as one row. */
    if (single && same && p->every == a->stride_h) phase->rows = 1, phase->columns = y[1] * y[2];
    cut_rows(phase);
    for (int64_t t = 0; t < phase->n_taps; t++) {
        int64_t r = merged ? t : t / a->kernel_w, s = merged ? 0 : t % a->kernel_w;
        p->taps[t] = (amx_tap_t){r * row + s * cell, t * p->n_steps * 2 * AMX_TILE_BYTES};
    }
}

/* Along one axis: cells i = stride·u + place − pad of dx, from u = `first` on; they get tap r = place +
 * stride·t of the filter times dy's cell u − t. */
typedef struct axis {
    int64_t first, count, most;
} axis_t;

static axis_t axis_of(int64_t size, int64_t kernel, int64_t stride, int64_t pad, int64_t place)
{
    axis_t a = {.first = pad > place ? (pad - place + stride - 1) / stride : 0};
    int64_t last = size - 1 + pad - place; /* stride·u is at most that */
    a.count = last < 0 ? 0 : last / stride - a.first + 1;
    if (a.count < 0) a.count = 0;
    a.most = place < kernel ? (kernel - 1 - place) / stride : -1;
    return a;
}

static void shape_phase(amx_plan_t *p, const conv2d_attr_t *a, int64_t place_h, int64_t place_w, int64_t w,
                        int64_t *n_taps)
{
    int64_t h = p->out_picture / (w * p->n_out);
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
    const int64_t *x = d->x[0].dim, *y = d->y.dim;
    int64_t n_taps = 0;
    p->h = y[1], p->w = y[2], p->c = y[3], p->n_out = x[3], p->every = 1;
    p->cell = loop_round_up(p->c, AMX_DEPTH), p->n_steps = p->cell / AMX_DEPTH;
    p->out_row = a->stride_h * x[2] * x[3], p->out_column = a->stride_w * x[3];
    p->out_picture = x[1] * x[2] * x[3];
    /* A tap reaches that far back, and the last cell that far beyond dy. */
    p->top = (a->kernel_h - 1) / a->stride_h, p->left = (a->kernel_w - 1) / a->stride_w;
    int64_t below = (x[1] - 1 + a->pad_h) / a->stride_h + 1, beside = (x[2] - 1 + a->pad_w) / a->stride_w + 1;
    p->packed_h = p->top + (below > y[1] ? below : y[1]);
    p->packed_w = p->left + (beside > y[2] ? beside : y[2]);
    p->in_place = p->in_dtype == DTYPE_BF16 && p->packed_h == y[1] && p->packed_w == y[2] && p->cell == p->c;
    p->in_row = p->packed_w * p->cell * 2, p->in_column = p->cell * 2;
    for (int64_t i = 0; i < a->stride_h; i++)
        for (int64_t j = 0; j < a->stride_w; j++) shape_phase(p, a, i, j, x[2], &n_taps);
    phase_t *phase = &p->phases[0];
    if (is_single(a) && p->n_phases == 1) {
        phase->rows = 1, phase->columns = y[1] * y[2];
        cut_rows(phase);
    }
}

static err_t plan(const conv_impl_t *impl, const conv_problem_t *problem, void **out,
                  size_t *n_workspace_bytes)
{
    const op_desc_t *d = problem->desc;
    const conv2d_attr_t *a = &d->attr.conv2d;
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
    p->n = d->x[0].dim[0];
    p->out_picture = shape_count(d->y) / p->n;
    p->in_dtype = problem->pass == OP_FORWARD ? d->x_dtype[0] : d->y_dtype;
    p->out_dtype = problem->pass == OP_FORWARD ? d->y_dtype : d->x_dtype[0];
    if (problem->pass == OP_FORWARD)
        shape_forward(p, d);
    else
        shape_data(p, d);
    p->picture_bytes = p->packed_h * p->packed_w * p->cell * 2;
    if (!p->in_place) p->picture_bytes = (int64_t)mem_round((size_t)p->picture_bytes);
    p->chunk = CHUNK_BYTES / p->picture_bytes;
    p->chunk = p->chunk < 1 ? 1 : p->chunk > p->n ? p->n : p->chunk;
    int64_t value = (int64_t)dtype_size(p->out_dtype);
    p->stream = p->n * p->out_picture * value >= STREAM_BYTES && p->n_out * value % MEM_ALIGN == 0;
    p->n_blocks = (p->n_out + BLOCK - 1) / BLOCK;
    int64_t n_packed_taps = problem->pass == OP_FORWARD ? p->phases[0].n_taps : (int64_t)n_taps;
    p->block_bytes = n_packed_taps * p->n_steps * 2 * AMX_TILE_BYTES;
    p->pictures = (size_t)(p->n_blocks * p->block_bytes) + (size_t)p->n_out * sizeof(float);
    p->pictures = mem_round(p->pictures);
    *n_workspace_bytes = p->pictures + (p->in_place ? 0 : (size_t)(p->chunk * p->picture_bytes));
    *out = p;
    return ERR_OK;
}

/* Of right tiles [blocks][taps][steps][2 times 16 columns]. */
static uint16_t *tile_of(const amx_plan_t *p, uint16_t *tiles, int64_t column, int64_t tap, int64_t step)
{
    int64_t tile = (tap * p->n_steps + step) * 2 + column / AMX_COLUMNS % 2;
    return tiles + (column / BLOCK * p->block_bytes + tile * AMX_TILE_BYTES) / (int64_t)sizeof *tiles;
}

/* A column is a filter, its values in one piece. */
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

/* The same of filters whose channels of input and output change places. */
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
                p->amx->pack_pairs(rows, DTYPE_F32, AMX_DEPTH, column, AMX_COLUMNS, tile_of(p, to, column, t, i));
        }
}

/* Each the row of a window, as far as it is inside the picture. */
static void pack_windows(const amx_plan_t *p, const char *row, uint16_t *to)
{
    int64_t cell = p->c * (int64_t)dtype_size(p->in_dtype);
    memset(to, 0, (size_t)(p->packed_w * p->cell) * sizeof *to);
    for (int64_t i = 0; i < p->packed_w; i++, to += p->cell) {
        int64_t first = i * p->window_every - p->left, end = first + p->window,
                before = first < 0 ? -first : 0;
        if (end > p->w) end = p->w;
        if (first + before < end)
            p->amx->pack_row(row + (first + before) * cell, p->in_dtype, (end - first - before) * p->c,
                             (end - first - before) * p->c, to + before * p->c);
    }
}

static void pack_picture_row(const amx_plan_t *p, const char *picture, int64_t row, uint16_t *to)
{
    int64_t cell = p->c * (int64_t)dtype_size(p->in_dtype);
    int64_t above = (row - p->top) * p->every, values = p->packed_w * p->cell;
    if (row < p->top || above >= p->h) {
        memset(to, 0, (size_t)values * sizeof *to);
        return;
    }
    const char *from = picture + above * p->w * cell;
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
            p->amx->pack_row(from + i * p->every * cell, p->in_dtype, p->c, p->cell,
                             to + (p->left + i) * p->cell);
    memset(to + behind, 0, (size_t)(values - behind) * sizeof *to);
}

static void pack_pictures(const amx_plan_t *p, const char *from, int64_t n, char *to)
{
    int64_t picture = p->h * p->w * p->c * (int64_t)dtype_size(p->in_dtype);
#pragma omp parallel for schedule(static) collapse(2)
    for (int64_t i = 0; i < n; i++)
        for (int64_t row = 0; row < p->packed_h; row++)
            pack_picture_row(p, from + i * picture, row,
                             (uint16_t *)(to + i * p->picture_bytes) + row * p->packed_w * p->cell);
}

/* One block of columns of some tiles of a phase, in pairs. */
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
                             .out_row = p->out_column * (int64_t)dtype_size(p->out_dtype),
                             .out_dtype = p->out_dtype,
                             .stream = p->stream};
    int64_t channel = block * BLOCK, value = (int64_t)dtype_size(p->out_dtype);
    for (int64_t tile = first; tile < end; tile += 2) {
        amx_place_t place = {.right = task->filters + block * p->block_bytes,
                             .n_right = p->n_out - channel < BLOCK ? 1 : 2,
                             .bias = task->bias ? task->bias + channel : task->zeros};
        for (int64_t i = 0; i < 2 && tile + i < end; i++) {
            int64_t row = (tile + i) / phase->n_tiles,
                    column = (tile + i) % phase->n_tiles * phase->tile_rows;
            if (column > phase->columns - phase->tile_rows) column = phase->columns - phase->tile_rows;
            place.left[i] = task->picture + phase->in + row * p->in_row + column * p->in_column;
            place.out[i] =
                task->out + (phase->out + row * p->out_row + column * p->out_column + channel) * value;
        }
        p->amx->multiply(&product, &place);
    }
}

/* All of a picture's phases, by `group` tiles through blocks first … end. */
static void multiply_picture(const amx_plan_t *p, const task_t *task, int64_t first, int64_t end,
                             int64_t group)
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

/* Few filters stay in the cache while all channels of a few outputs are computed, so that these are written
 * in one piece; of many only a block does, while it meets all pictures. */
static void multiply_pictures(const amx_plan_t *p, const task_t *all, int64_t n)
{
    bool few = p->n_blocks * p->block_bytes <= FEW_FILTERS;
    int64_t at_once = few ? p->n_blocks : 1, group = few ? GROUP : INT64_MAX;
#pragma omp parallel for schedule(static) collapse(2)
    for (int64_t block = 0; block < p->n_blocks; block += at_once)
        for (int64_t i = 0; i < n; i++) {
            task_t task = *all;
            task.picture += i * p->picture_bytes;
            task.out += i * p->out_picture * (int64_t)dtype_size(p->out_dtype);
            multiply_picture(p, &task, block, block + at_once, group);
        }
}

static err_t run(const void *plan_, const conv_problem_t *problem, const conv_buffers_t *b, void *workspace)
{
    if (problem->pass == OP_BACKWARD_WEIGHTS) return conv_amx_weights_run(plan_, problem, b, workspace);
    const amx_plan_t *p = plan_;
    bool forward = problem->pass == OP_FORWARD;
    const char *from = forward ? b->x : b->dy;
    char *to = forward ? b->y : b->dx, *pictures = (char *)workspace + p->pictures;
    float *zeros = (float *)((char *)workspace + p->n_blocks * p->block_bytes);
    int64_t in_picture = p->h * p->w * p->c * (int64_t)dtype_size(p->in_dtype);
    int64_t out_picture = p->out_picture * (int64_t)dtype_size(p->out_dtype);
    memset(zeros, 0, (size_t)p->n_out * sizeof *zeros);
    if (forward)
        pack_filters(p, problem->desc, b->weight, workspace);
    else
        pack_exchanged(p, problem->desc, b->weight, zeros, workspace);
    for (int64_t first = 0; first < p->n; first += p->chunk) {
        int64_t n = loop_count(first, p->n, p->chunk);
        const char *chunk = from + first * in_picture;
        task_t task = {p->in_place ? chunk : pictures, workspace, forward ? b->bias : NULL, zeros,
                       to + first * out_picture};
        if (!p->in_place) pack_pictures(p, chunk, n, pictures);
        multiply_pictures(p, &task, n);
    }
    return ERR_OK;
}

static void unplan(void **plan_)
{
    mem_free(plan_);
}

const conv_impl_t conv_amx[] = {
    {"amx/bf16", "", false, true, fits, plan, run, unplan},
    {.name = NULL},
};

const conv_impl_t *conv_amx_rule(const conv_problem_t *problem)
{
    return fits(conv_amx, problem) ? conv_amx : NULL;
}
