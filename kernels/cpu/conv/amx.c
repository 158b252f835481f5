/* SPDX-License-Identifier: MIT */
/* Convolutions in bfloat16 on AMX (amx.h): forward, and backward data as one forward convolution per position
 * of a pixel between two strides (with stride 1 there is one). Backward weights is in amx_weights.c.
 *
 * Images are packed with their padding, so that the left tiles of a row of outputs are rows of the packed
 * image, a stride apart: windows are not copied. Only if a pixel has fewer channels than a tile is deep are
 * the rows of windows copied; they take the place of pixels. A few images are packed at a time and stay in
 * the cache while they are multiplied. bfloat16 images that need neither padding nor rounding are used as
 * left tiles directly. */
#include <omp.h>
#include <string.h>

#include "base/mem.h"
#include "kernels/cpu/conv/amx_shape.h"
#include "kernels/cpu/conv/amx_weights.h"
#include "kernels/cpu/conv/conv.h"
#include "kernels/cpu/loop.h"

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
