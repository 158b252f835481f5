/* SPDX-License-Identifier: MIT */
/* Batch norm and group norm, training and inference. Passes over memory, each over some rows (all channels of a pixel);
 * then statistics, running averages and coefficients. Fused operators are applied in the same passes, with the same
 * operations in the same order as the separate operators, so the results are bitwise equal.
 *
 * Bytes per element to move, for tensors larger than any cache; in brackets with separate operators. A store
 * to a line that was not read counts twice.
 *
 *                        sums   forward   sums of gradients   backward
 *   alone                4      12        8                   12
 *   with ReLU            4      12 (20)   8 (20)              12
 *   with add and ReLU    4      16 (32)   16 (36)             12
 *
 * Frozen, there are no sums, and backward takes 12, with add and ReLU 20.
 *
 * Tensors are stored as float32, or all of them as bfloat16, which halves these figures: arithmetic is the
 * same, on widened values, and results are rounded when they are written. */
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "kernels/cpu/cpu.h"
#include "kernels/cpu/loop.h"

enum { NORM_MASK_ROWS = 32 }; /* rows per mask word */
/* y = (x − mean) · scale + beta, plus shortcut, then ReLU. */
typedef struct norm_rows {
    int64_t n_rows, n_c;
    const void *x;
    const void *shortcut; /* NULL: none */
    bool narrow;          /* x, shortcut, y and their gradients are bfloat16 */
    bool relu;
    /* With a shortcut and ReLU: bit r of word [i][c] is set if y of row 32·i + r is above 0. If NULL, forward
     * does not write it. Without a shortcut backward does not need it: it recomputes y. */
    uint32_t *mask;
    const float *mean, *scale, *beta; /* [c] */
} norm_rows_t;

/* The source of ReLU's gate in backward; a constant in each compiled loop. */
typedef enum gate {
    GATE_NONE,
    GATE_COMPUTED, /* y is recomputed: nothing was added to it */
    GATE_MASKED
} gate_t;

static gate_t gate_of(const norm_rows_t *r)
{
    return !r->relu ? GATE_NONE : r->mask ? GATE_MASKED : GATE_COMPUTED;
}

/* Rows are added to a sum in order, four at a time: a sum that goes to memory and back for each row costs
 * more than the additions. */
NARROW_INLINE void sum_some(float *restrict sum, const void *restrict x, int64_t n_c, int n_rows, bool narrow)
{
    for (int64_t c = 0; c < n_c; c++) {
        float s = sum[c];
        for (int i = 0; i < n_rows; i++) s += narrow_take(x, i * n_c + c, narrow);
        sum[c] = s;
    }
}

NARROW_INLINE void sum_some_squares(float *restrict sum, float share, const void *restrict x, int64_t n_c,
                                    int n_rows, bool narrow)
{
    float *restrict squares = sum + n_c;
    for (int64_t c = 0; c < n_c; c++) {
        float s = squares[c], mean = sum[c] * share;
        for (int i = 0; i < n_rows; i++) {
            float off = narrow_take(x, i * n_c + c, narrow) - mean;
            s += off * off;
        }
        squares[c] = s;
    }
}

/* Prefetches four rows. */
NARROW_INLINE void fetch(const void *rows, int64_t n_c, bool narrow)
{
    const char *end = narrow_at(rows, 4 * n_c, narrow);
    for (const char *at = rows; at < end; at += 64) __builtin_prefetch(at, 0, 2);
}

/* In the second pass the block is in cache and memory would be idle: the next block is prefetched then. */
NARROW_INLINE void sum_rows(const norm_rows_t *r, float *sum, bool narrow)
{
    int64_t row, n_rows = r->n_rows, n_c = r->n_c;
    float share = 1 / (float)n_rows;
    for (int64_t i = 0; i < 2 * n_c; i++) sum[i] = 0;
    for (row = 0; row + 4 <= n_rows; row += 4)
        sum_some(sum, narrow_at(r->x, row * n_c, narrow), n_c, 4, narrow);
    for (; row < n_rows; row++) sum_some(sum, narrow_at(r->x, row * n_c, narrow), n_c, 1, narrow);
    for (row = 0; row + 4 <= n_rows; row += 4) {
        fetch(narrow_at(r->x, (row + n_rows) * n_c, narrow), n_c, narrow);
        sum_some_squares(sum, share, narrow_at(r->x, row * n_c, narrow), n_c, 4, narrow);
    }
    for (; row < n_rows; row++)
        sum_some_squares(sum, share, narrow_at(r->x, row * n_c, narrow), n_c, 1, narrow);
}

LOOP_CLONES(sum_rows_wide, (const norm_rows_t *r, float *sum), (r, sum))
{
    sum_rows(r, sum, false);
}

WIDE_CLONES(sum_rows_narrow, (const norm_rows_t *r, float *sum), (r, sum))
{
    sum_rows(r, sum, true);
}

/* sum[0..c) = Σ x; sum[c..2c) = Σ (x − m)², where m is the mean of these rows. */
static void norm_rows_sum(const norm_rows_t *rows, float *sum)
{
    if (rows->narrow)
        sum_rows_narrow(rows, sum);
    else
        sum_rows_wide(rows, sum);
}

/* y may be x, and element c depends on element c alone, which `omp simd` states. */
NARROW_INLINE void forward_row(const norm_rows_t *r, int64_t row, void *y, bool add, bool relu, bool keep,
                               bool narrow)
{
    int64_t n_c = r->n_c;
    const void *x = narrow_at(r->x, row * n_c, narrow);
    const void *shortcut = add ? narrow_at(r->shortcut, row * n_c, narrow) : NULL;
    const float *mean = r->mean, *scale = r->scale, *beta = r->beta;
    uint32_t *mask = keep ? r->mask + row / NORM_MASK_ROWS * n_c : NULL, bit = 1u << row % NORM_MASK_ROWS;
    y = narrow_at(y, row * n_c, narrow);
#pragma omp simd
    for (int64_t c = 0; c < n_c; c++) {
        float value = (narrow_take(x, c, narrow) - mean[c]) * scale[c] + beta[c];
        if (add) value += narrow_take(shortcut, c, narrow);
        if (relu) value = value <= 0 ? 0 : value; /* in this order NaN propagates */
        if (keep) mask[c] |= value > 0 ? bit : 0;
        narrow_put(y, c, value, narrow);
    }
}

NARROW_INLINE void forward_rows(const norm_rows_t *rows, void *y, bool narrow)
{
    const norm_rows_t r = *rows;
    bool keep = r.mask && r.relu;
    if (keep)
        memset(r.mask, 0,
               (size_t)((r.n_rows + NORM_MASK_ROWS - 1) / NORM_MASK_ROWS * r.n_c) * sizeof *r.mask);
    for (int64_t row = 0; row < r.n_rows; row++) {
        if (keep)
            forward_row(&r, row, y, true, true, true, narrow);
        else if (r.shortcut && r.relu)
            forward_row(&r, row, y, true, true, false, narrow);
        else if (r.shortcut)
            forward_row(&r, row, y, true, false, false, narrow);
        else if (r.relu)
            forward_row(&r, row, y, false, true, false, narrow);
        else
            forward_row(&r, row, y, false, false, false, narrow);
    }
}

LOOP_CLONES(forward_wide, (const norm_rows_t *r, void *y), (r, y))
{
    forward_rows(r, y, false);
}

WIDE_CLONES(forward_narrow, (const norm_rows_t *r, void *y), (r, y))
{
    forward_rows(r, y, true);
}

/* y may be x. */
static void norm_rows_forward(const norm_rows_t *rows, void *y)
{
    if (rows->narrow)
        forward_narrow(rows, y);
    else
        forward_wide(rows, y);
}

/* The part of one element's gradient that ReLU passes on; off = x − mean. */
NARROW_INLINE float gated(gate_t gate, float dy, float off, float scale, float beta, uint32_t in_mask)
{
    if (gate == GATE_COMPUTED) return off * scale + beta > 0 ? dy : 0;
    if (gate == GATE_MASKED) return in_mask ? dy : 0;
    return dy;
}

NARROW_INLINE void sum_gradients_row(const norm_rows_t *r, int64_t row, const void *dy, void *dshortcut,
                                     float *sum, gate_t gate, bool pass_on, bool narrow)
{
    int64_t n_c = r->n_c;
    const void *x = narrow_at(r->x, row * n_c, narrow);
    const float *mean = r->mean, *scale = r->scale, *beta = r->beta;
    const uint32_t *mask = gate == GATE_MASKED ? r->mask + row / NORM_MASK_ROWS * n_c : NULL;
    uint32_t bit = 1u << row % NORM_MASK_ROWS;
    float *product = sum + n_c;
    dy = narrow_at(dy, row * n_c, narrow);
    if (pass_on) dshortcut = narrow_at(dshortcut, row * n_c, narrow);
#pragma omp simd
    for (int64_t c = 0; c < n_c; c++) {
        float off = narrow_take(x, c, narrow) - mean[c];
        float g = gated(gate, narrow_take(dy, c, narrow), off, scale[c], beta[c],
                        gate == GATE_MASKED ? mask[c] & bit : 0);
        if (pass_on) narrow_put(dshortcut, c, g, narrow);
        sum[c] += g;
        product[c] += g * off;
    }
}

NARROW_INLINE void sum_gradients(const norm_rows_t *rows, const void *dy, void *dshortcut, float *sum,
                                 bool narrow)
{
    const norm_rows_t r = *rows;
    gate_t gate = gate_of(&r);
    for (int64_t i = 0; i < 2 * r.n_c; i++) sum[i] = 0;
    for (int64_t row = 0; row < r.n_rows; row++) {
        if (gate == GATE_MASKED && dshortcut)
            sum_gradients_row(&r, row, dy, dshortcut, sum, GATE_MASKED, true, narrow);
        else if (gate == GATE_MASKED)
            sum_gradients_row(&r, row, dy, NULL, sum, GATE_MASKED, false, narrow);
        else if (gate == GATE_COMPUTED)
            sum_gradients_row(&r, row, dy, NULL, sum, GATE_COMPUTED, false, narrow);
        else if (dshortcut)
            sum_gradients_row(&r, row, dy, dshortcut, sum, GATE_NONE, true, narrow);
        else
            sum_gradients_row(&r, row, dy, NULL, sum, GATE_NONE, false, narrow);
    }
}

LOOP_CLONES(sum_gradients_wide, (const norm_rows_t *r, const void *dy, void *dshortcut, float *sum),
            (r, dy, dshortcut, sum))
{
    sum_gradients(r, dy, dshortcut, sum, false);
}

WIDE_CLONES(sum_gradients_narrow, (const norm_rows_t *r, const void *dy, void *dshortcut, float *sum),
            (r, dy, dshortcut, sum))
{
    sum_gradients(r, dy, dshortcut, sum, true);
}

/* With g = dy where ReLU let y pass and 0 elsewhere: sum[0..c) = Σ g, sum[c..2c) = Σ g·(x − mean), and
 * dshortcut = g unless it is NULL. */
static void norm_rows_sum_gradients(const norm_rows_t *rows, const void *dy, void *dshortcut, float *sum)
{
    if (rows->narrow)
        sum_gradients_narrow(rows, dy, dshortcut, sum);
    else
        sum_gradients_wide(rows, dy, dshortcut, sum);
}

NARROW_INLINE void backward_row(const norm_rows_t *r, int64_t row, const void *dy, const float *shift,
                                const float *slope, void *dx, gate_t gate, bool narrow)
{
    int64_t n_c = r->n_c;
    const void *x = narrow_at(r->x, row * n_c, narrow);
    const float *mean = r->mean, *scale = r->scale, *beta = r->beta;
    const uint32_t *mask = gate == GATE_MASKED ? r->mask + row / NORM_MASK_ROWS * n_c : NULL;
    uint32_t bit = 1u << row % NORM_MASK_ROWS;
    dy = narrow_at(dy, row * n_c, narrow), dx = narrow_at(dx, row * n_c, narrow);
#pragma omp simd
    for (int64_t c = 0; c < n_c; c++) {
        float off = narrow_take(x, c, narrow) - mean[c];
        float g = gated(gate, narrow_take(dy, c, narrow), off, scale[c], beta[c],
                        gate == GATE_MASKED ? mask[c] & bit : 0);
        narrow_put(dx, c, scale[c] * g - shift[c] - off * slope[c], narrow);
    }
}

NARROW_INLINE void backward_rows(const norm_rows_t *rows, const void *dy, const float *shift,
                                 const float *slope, void *dx, bool narrow)
{
    const norm_rows_t r = *rows;
    gate_t gate = gate_of(&r);
    for (int64_t row = 0; row < r.n_rows; row++) {
        if (gate == GATE_MASKED)
            backward_row(&r, row, dy, shift, slope, dx, GATE_MASKED, narrow);
        else if (gate == GATE_COMPUTED)
            backward_row(&r, row, dy, shift, slope, dx, GATE_COMPUTED, narrow);
        else
            backward_row(&r, row, dy, shift, slope, dx, GATE_NONE, narrow);
    }
}

LOOP_CLONES(backward_wide,
            (const norm_rows_t *r, const void *dy, const float *shift, const float *slope, void *dx),
            (r, dy, shift, slope, dx))
{
    backward_rows(r, dy, shift, slope, dx, false);
}

WIDE_CLONES(backward_narrow,
            (const norm_rows_t *r, const void *dy, const float *shift, const float *slope, void *dx),
            (r, dy, shift, slope, dx))
{
    backward_rows(r, dy, shift, slope, dx, true);
}

/* dx = scale · g − shift − (x − mean) · slope; dx may be dy. */
static void norm_rows_backward(const norm_rows_t *rows, const void *dy, const float *shift,
                               const float *slope, void *dx)
{
    if (rows->narrow)
        backward_narrow(rows, dy, shift, slope, dx);
    else
        backward_wide(rows, dy, shift, slope, dx);
}

NARROW_INLINE void frozen_row(const float *scale, int64_t n_c, const void *y, const void *dy, void *dx,
                              void *dshortcut, bool relu, bool pass_on, bool narrow)
{
#pragma omp simd
    for (int64_t c = 0; c < n_c; c++) {
        float g = narrow_take(dy, c, narrow);
        if (relu) g = narrow_take(y, c, narrow) > 0 ? g : 0;
        if (pass_on) narrow_put(dshortcut, c, g, narrow);
        if (dx) narrow_put(dx, c, scale[c] * g, narrow);
    }
}

NARROW_INLINE void frozen_rows(const norm_rows_t *r, const void *y, const void *dy, void *dx, void *dshortcut,
                               bool narrow)
{
    const int64_t n_c = r->n_c;
    for (int64_t row = 0; row < r->n_rows; row++) {
        const void *from = narrow_at(dy, row * n_c, narrow), *gate = narrow_at(y, row * n_c, narrow);
        void *to = dx ? narrow_at(dx, row * n_c, narrow) : NULL;
        void *other = dshortcut ? narrow_at(dshortcut, row * n_c, narrow) : NULL;
        if (r->relu && other)
            frozen_row(r->scale, n_c, gate, from, to, other, true, true, narrow);
        else if (r->relu)
            frozen_row(r->scale, n_c, gate, from, to, NULL, true, false, narrow);
        else
            frozen_row(r->scale, n_c, NULL, from, to, other, false, other != NULL, narrow);
    }
}

LOOP_CLONES(frozen_wide, (const norm_rows_t *r, const void *y, const void *dy, void *dx, void *dshortcut),
            (r, y, dy, dx, dshortcut))
{
    frozen_rows(r, y, dy, dx, dshortcut, false);
}

WIDE_CLONES(frozen_narrow, (const norm_rows_t *r, const void *y, const void *dy, void *dx, void *dshortcut),
            (r, y, dy, dx, dshortcut))
{
    frozen_rows(r, y, dy, dx, dshortcut, true);
}

/* dx = scale · g and dshortcut = g, where g is dy, with ReLU 0 unless y is above 0. Reads y, with ReLU, scale and dy.
 * dx may be dy; dx and dshortcut may be NULL. */
static void norm_rows_frozen_backward(const norm_rows_t *rows, const void *y, const void *dy, void *dx,
                                      void *dshortcut)
{
    if (rows->narrow)
        frozen_narrow(rows, y, dy, dx, dshortcut);
    else
        frozen_wide(rows, y, dy, dx, dshortcut);
}

/* oneDNN's primitive is not used: its sums depend on the number of threads. Here a group's rows (all
 * dimensions but the channels) are cut into blocks of a fixed size; each block is summed in float, and the
 * blocks are added in order, in double.
 *
 * Group norm is the same of groups of one sample, but that their channels' sums are then added up over each group of
 * channels (fold_channels), and that it has no running averages.
 *
 * Saved, for each group: mean [c], 1/std [c]; after all of these, with a fused addition and ReLU, each
 * group's mask (norm_rows_t). Frozen, nothing is: backward reads y for the ReLU and never x, whose memory
 * y may take. */
enum { ROW_BLOCK = 4 * NORM_MASK_ROWS };

typedef struct norm {
    int64_t n_c, n_groups, n_rows, group_rows;
    int64_t channels; /* that share statistics: 1, or of group norm more */
    double epsilon;
    bool frozen;
    bool keeps;         /* backward needs what forward saves */
    bool shares;        /* with the ranks whose sums sum_shared adds */
    int64_t mask_words; /* per group; 0: no mask */
    /* Workspace, in this order:
     *   sums         [2c + 1] a group's sums and their count
     *   over_groups  [2][c] sums over the groups
     *   coefficient  [3][c]
     *   partial      [blocks][2][c] the blocks' sums */
    double *sums, *over_groups;
    float *coefficient[3], *partial;
} norm_t;

static norm_t norm_of(const op_t *op, void *workspace)
{
    shape_t y = op->desc.y[0];
    norm_t n = {.n_c = op->desc.param[0].dim[0], .channels = 1};
    int64_t group = 1; /* samples */
    if (op->desc.kind == OP_GROUP_NORM) {
        n.channels = n.n_c / op->desc.attr.group_norm.groups, n.epsilon = op->desc.attr.group_norm.epsilon;
    } else {
        const batch_norm_attr_t *a = &op->desc.attr.batch_norm;
        group = a->group > 0 && a->group < y.dim[0] ? a->group : y.dim[0];
        n.epsilon = a->epsilon, n.frozen = a->frozen, n.shares = true;
    }
    n.n_groups = (y.dim[0] + group - 1) / group;
    n.n_rows = shape_count(y) / n.n_c;
    n.group_rows = n.n_rows / y.dim[0] * group;
    n.keeps = op->training && !n.frozen;
    if (n.keeps && op->desc.n_inputs == 2 && op_epilogue(&op->desc).relu)
        n.mask_words = (n.group_rows + NORM_MASK_ROWS - 1) / NORM_MASK_ROWS * n.n_c;
    if (!workspace) return n;
    n.sums = workspace;
    n.over_groups = n.sums + 2 * n.n_c + 1;
    n.coefficient[0] = (float *)(n.over_groups + 2 * n.n_c);
    for (int i = 1; i < 3; i++) n.coefficient[i] = n.coefficient[0] + i * n.n_c;
    n.partial = n.coefficient[0] + 3 * n.n_c;
    return n;
}

static err_t cpu_norm_plan(op_t *op)
{
    norm_t n = norm_of(op, NULL);
    int64_t n_blocks = (n.group_rows + ROW_BLOCK - 1) / ROW_BLOCK;
    if (n.frozen) op->reads_x = 0, op->reads_y = op_epilogue(&op->desc).relu ? OP_FIRST : 0;
    if (n.keeps) op->n_saved_bytes = (size_t)(n.n_groups * (2 * n.n_c + n.mask_words)) * sizeof(float);
    op->n_workspace_bytes =
        (size_t)(4 * n.n_c + 1) * sizeof(double) + (size_t)((3 + 2 * n_blocks) * n.n_c) * sizeof(float);
    return ERR_OK;
}

/* The rows of group g and what is saved for them. */
static norm_rows_t rows_of_group(const op_t *op, const op_args_t *args, const norm_t *n, int64_t g)
{
    int64_t first = g * n->group_rows * n->n_c;
    bool narrow = op_is_all_narrow(&op->desc);
    float *saved = op->n_saved_bytes ? args->saved : NULL;
    uint32_t *masks = n->mask_words ? (uint32_t *)(void *)(saved + 2 * n->n_groups * n->n_c) : NULL;
    return (norm_rows_t){
        .n_rows = loop_count(g * n->group_rows, n->n_rows, n->group_rows),
        .n_c = n->n_c,
        .x = narrow_at(args->x[0].data, first, narrow),
        .shortcut = op->desc.n_inputs == 2 ? narrow_at(args->x[1].data, first, narrow) : NULL,
        .narrow = narrow,
        .relu = op_epilogue(&op->desc).relu,
        .mask = masks ? masks + g * n->mask_words : NULL,
        .mean = saved ? saved + 2 * g * n->n_c : NULL,
        .beta = args->param[1].data,
    };
}

/* Row i of a tensor that begins with the first of `rows`; NULL for NULL. */
static void *row_at(const norm_rows_t *rows, const void *tensor, int64_t i)
{
    return tensor ? narrow_at(tensor, i * rows->n_c, rows->narrow) : NULL;
}

/* The block of rows that begins at row i. */
static norm_rows_t block_of(const norm_rows_t *rows, int64_t i)
{
    norm_rows_t block = *rows;
    block.n_rows = loop_count(i, rows->n_rows, ROW_BLOCK);
    block.x = row_at(rows, rows->x, i);
    block.shortcut = row_at(rows, rows->shortcut, i);
    if (rows->mask) block.mask += i / NORM_MASK_ROWS * rows->n_c;
    return block;
}

/* Whether the work is worth a fork. */
static bool forks(const norm_rows_t *rows)
{
    return rows->n_rows * rows->n_c > LOOP_FORK_MIN;
}

/* sums[0..width·c) = the blocks' sums over n_rows rows, followed by the number of rows. */
static void add_blocks(const norm_t *n, int64_t n_rows, int width)
{
    int64_t n_sums = width * n->n_c, n_blocks = (n_rows + ROW_BLOCK - 1) / ROW_BLOCK;
    for (int64_t i = 0; i < n_sums; i++) n->sums[i] = 0;
    for (int64_t block = 0; block < n_blocks; block++)
        for (int64_t i = 0; i < n_sums; i++) n->sums[i] += n->partial[2 * block * n->n_c + i];
    n->sums[n_sums] = (double)n_rows;
}

/* sums[0..c) = Σ (x − mean)², followed by the number of rows. Each block, with its own mean m, adds Σ (x −
 * m)² + 2·(m − mean)·Σ (x − m) + rows·(m − mean)². */
static void add_squares(const norm_t *n, int64_t n_rows, const float *mean)
{
    int64_t n_c = n->n_c;
    for (int64_t c = 0; c < n_c; c++) n->sums[c] = 0;
    for (int64_t i = 0; i < n_rows; i += ROW_BLOCK) {
        const float *sum = n->partial + i / ROW_BLOCK * 2 * n_c, *squares = sum + n_c;
        float rows = (float)loop_count(i, n_rows, ROW_BLOCK), share = 1 / rows;
        for (int64_t c = 0; c < n_c; c++) {
            double m = (double)(sum[c] * share), off = m - (double)mean[c];
            n->sums[c] +=
                (double)squares[c] + 2 * off * ((double)sum[c] - (double)rows * m) + (double)rows * off * off;
        }
    }
    n->sums[n_c] = (double)n_rows;
}

/* Of `width` sums [c] and the number of rows: those of each group of channels, for every channel of it, and the number of
 * elements. */
static void fold_channels(const norm_t *n, int width)
{
    for (int64_t first = 0; n->channels > 1 && first < width * n->n_c; first += n->channels) {
        double sum = 0;
        for (int64_t c = 0; c < n->channels; c++) sum += n->sums[first + c];
        for (int64_t c = 0; c < n->channels; c++) n->sums[first + c] = sum;
    }
    n->sums[width * n->n_c] *= (double)n->channels;
}

/* Adds up the first n_values sums over all ranks that share statistics. */
static err_t share_sums(const op_args_t *args, const norm_t *n, int64_t n_values)
{
    return n->shares && args->batch_norm.sum_shared
               ? args->batch_norm.sum_shared(args->batch_norm.context, n->sums, n_values)
               : ERR_OK;
}

/* mean, inverse_std [c]: of one group. The moments for the running averages are added to over_groups. */
static err_t group_moments(const op_args_t *args, const norm_t *n, const norm_rows_t *rows, float *mean,
                           float *inverse_std)
{
    int64_t n_c = n->n_c, n_rows = rows->n_rows;
#pragma omp parallel for schedule(static) if (forks(rows))
    for (int64_t i = 0; i < n_rows; i += ROW_BLOCK) {
        norm_rows_t block = block_of(rows, i);
        norm_rows_sum(&block, n->partial + i / ROW_BLOCK * 2 * n_c);
    }
    add_blocks(n, n_rows, 1);
    fold_channels(n, 1);
    TRY(share_sums(args, n, n_c + 1));
    for (int64_t c = 0; c < n_c; c++) {
        double value = n->sums[c] / n->sums[n_c];
        mean[c] = (float)value;
        n->over_groups[c] += value;
    }
    add_squares(n, n_rows, mean);
    fold_channels(n, 1);
    TRY(share_sums(args, n, n_c + 1));
    double count = n->sums[n_c];
    for (int64_t c = 0; c < n_c; c++) {
        inverse_std[c] = (float)(1 / sqrt(n->sums[c] / count + n->epsilon));
        n->over_groups[n_c + c] += n->sums[c] / (count > 1 ? count - 1 : 1);
    }
    return ERR_OK;
}

static void running_moments(const op_args_t *args, const norm_t *n, float *mean, float *inverse_std)
{
    const float *running_mean = args->state[0].data, *running_variance = args->state[1].data;
    for (int64_t c = 0; c < n->n_c; c++) {
        mean[c] = running_mean[c];
        inverse_std[c] = (float)(1 / sqrt(running_variance[c] + n->epsilon));
    }
}

/* All rows, with coefficients 0 and 1 as `normalize` takes them. */
static norm_rows_t running_rows(const op_t *op, const op_args_t *args, const norm_t *n)
{
    const float *gamma = args->param[0].data;
    norm_rows_t rows = rows_of_group(op, args, n, 0);
    running_moments(args, n, n->coefficient[0], n->coefficient[2]);
    for (int64_t c = 0; c < n->n_c; c++) n->coefficient[1][c] = gamma[c] * n->coefficient[2][c];
    rows.n_rows = n->n_rows;
    rows.mask = NULL;
    return rows;
}

/* Uses coefficients 0 (mean) and 1 (γ/std). */
static void normalize(const norm_t *n, const norm_rows_t *rows, void *y)
{
#pragma omp parallel for schedule(static) if (forks(rows))
    for (int64_t i = 0; i < rows->n_rows; i += ROW_BLOCK) {
        norm_rows_t block = block_of(rows, i);
        block.mean = n->coefficient[0], block.scale = n->coefficient[1];
        norm_rows_forward(&block, row_at(rows, y, i));
    }
}

static void update_running(float *running, const double *over_groups, const norm_t *n, double momentum)
{
    for (int64_t c = 0; c < n->n_c; c++) {
        double batch = over_groups[c] / (double)n->n_groups;
        running[c] = (float)(running[c] + momentum * (batch - running[c]));
    }
}

/* With the statistics of each group. */
static err_t grouped_forward(const op_t *op, const op_args_t *args, const norm_t *n)
{
    const float *gamma = args->param[0].data;
    float *mean = n->coefficient[0], *scale = n->coefficient[1], *inverse_std = n->coefficient[2];
    for (int64_t i = 0; i < 2 * n->n_c; i++) n->over_groups[i] = 0;
    for (int64_t g = 0; g < n->n_groups; g++) {
        norm_rows_t rows = rows_of_group(op, args, n, g);
        float *saved = op->n_saved_bytes ? (float *)args->saved + 2 * g * n->n_c : NULL;
        TRY(group_moments(args, n, &rows, mean, inverse_std));
        for (int64_t c = 0; c < n->n_c; c++) {
            scale[c] = gamma[c] * inverse_std[c];
            if (saved) saved[c] = mean[c], saved[n->n_c + c] = inverse_std[c];
        }
        normalize(n, &rows, row_at(&rows, args->y[0].data, g * n->group_rows));
    }
    return ERR_OK;
}

static err_t cpu_batch_norm_forward(const op_t *op, const op_args_t *args)
{
    norm_t n = norm_of(op, args->workspace);
    if (!args->training || n.frozen) {
        norm_rows_t rows = running_rows(op, args, &n);
        normalize(&n, &rows, args->y[0].data);
        return ERR_OK;
    }
    TRY(grouped_forward(op, args, &n));
    const double momentum = op->desc.attr.batch_norm.momentum;
    update_running(args->state[0].data, n.over_groups, &n, momentum);
    update_running(args->state[1].data, n.over_groups + n.n_c, &n, momentum);
    return ERR_OK;
}

static err_t cpu_group_norm_forward(const op_t *op, const op_args_t *args)
{
    norm_t n = norm_of(op, args->workspace);
    return grouped_forward(op, args, &n);
}

/* Adds a group's sums to over_groups, and makes coefficients 1 and 2 of the sums over all ranks: with averages over what
 * shares statistics, average(γ·g)/std and average(γ·g·x̂)/std². */
static err_t use_sums(const op_args_t *args, const norm_t *n, const norm_rows_t *rows)
{
    const int64_t n_c = n->n_c;
    const float *inverse_std = rows->mean + n_c, *gamma = args->param[0].data;
    add_blocks(n, rows->n_rows, 2);
    for (int64_t c = 0; c < n_c; c++) {
        n->over_groups[c] += n->sums[c];
        n->over_groups[n_c + c] += n->sums[n_c + c] * inverse_std[c];
        n->sums[c] *= gamma[c], n->sums[n_c + c] *= gamma[c];
    }
    fold_channels(n, 2);
    TRY(share_sums(args, n, 2 * n_c + 1));
    for (int64_t c = 0; c < n_c; c++) {
        double count = n->sums[2 * n_c], invert = inverse_std[c];
        n->coefficient[1][c] = (float)(invert * n->sums[c] / count);
        n->coefficient[2][c] = (float)(invert * invert * invert * n->sums[n_c + c] / count);
    }
    return ERR_OK;
}

/* One group: adds its part of dγ and dβ to over_groups and writes its dx. With x̂ = (x−mean)/std: dβ = Σ dy,
 * dγ = Σ dy·x̂, dx = (γ·dy − (Σ γ·dy + x̂·Σ γ·dy·x̂)/n)/std, where dx takes the sums and the count over all ranks and
 * channels that share statistics; Ioffe & Szegedy 2015, section 3. */
static err_t backward_group(const op_t *op, const op_args_t *args, const norm_t *n, int64_t g)
{
    norm_rows_t rows = rows_of_group(op, args, n, g);
    int64_t n_c = n->n_c, first = g * n->group_rows;
    const float *gamma = args->param[0].data, *inverse_std = rows.mean + n_c;
    const void *dy = row_at(&rows, args->dy[0].data, first);
    void *dx = row_at(&rows, args->dx[0].data, first);
    void *dshortcut = rows.shortcut ? row_at(&rows, args->dx[1].data, first) : NULL;
    for (int64_t c = 0; c < n_c; c++) n->coefficient[0][c] = gamma[c] * inverse_std[c];
    rows.scale = n->coefficient[0];
#pragma omp parallel for schedule(static) if (forks(&rows))
    for (int64_t i = 0; i < rows.n_rows; i += ROW_BLOCK) {
        norm_rows_t block = block_of(&rows, i);
        norm_rows_sum_gradients(&block, row_at(&rows, dy, i), row_at(&rows, dshortcut, i),
                                n->partial + i / ROW_BLOCK * 2 * n_c);
    }
    TRY(use_sums(args, n, &rows));
    if (!dx) return ERR_OK;
#pragma omp parallel for schedule(static) if (forks(&rows))
    for (int64_t i = 0; i < rows.n_rows; i += ROW_BLOCK) {
        norm_rows_t block = block_of(&rows, i);
        norm_rows_backward(&block, row_at(&rows, dy, i), n->coefficient[1], n->coefficient[2],
                           row_at(&rows, dx, i));
    }
    return ERR_OK;
}

static err_t frozen_backward(const op_t *op, const op_args_t *args, const norm_t *n)
{
    norm_rows_t rows = running_rows(op, args, n);
    const void *y = args->y[0].data, *dy = args->dy[0].data;
    void *dx = args->dx[0].data, *dshortcut = op->desc.n_inputs == 2 ? args->dx[1].data : NULL;
    rows.scale = n->coefficient[1];
#pragma omp parallel for schedule(static) if (forks(&rows))
    for (int64_t i = 0; i < rows.n_rows; i += ROW_BLOCK) {
        norm_rows_t block = block_of(&rows, i);
        norm_rows_frozen_backward(&block, row_at(&rows, y, i), row_at(&rows, dy, i), row_at(&rows, dx, i),
                                  row_at(&rows, dshortcut, i));
    }
    return ERR_OK;
}

static err_t cpu_norm_backward(const op_t *op, const op_args_t *args)
{
    norm_t n = norm_of(op, args->workspace);
    if (n.frozen) return frozen_backward(op, args, &n);
    float *dgamma = args->dparam[0].data, *dbeta = args->dparam[1].data;
    for (int64_t i = 0; i < 2 * n.n_c; i++) n.over_groups[i] = 0;
    for (int64_t g = 0; g < n.n_groups; g++) TRY(backward_group(op, args, &n, g));
    for (int64_t c = 0; c < n.n_c && dgamma; c++) {
        dbeta[c] = (float)n.over_groups[c];
        dgamma[c] = (float)n.over_groups[n.n_c + c];
    }
    return ERR_OK;
}

const op_kernel_t cpu_batch_norm = {.plan = cpu_norm_plan,
                                    .forward = cpu_batch_norm_forward,
                                    .backward = cpu_norm_backward,
                                    .fuses = true,
                                    .bf16 = true};

const op_kernel_t cpu_group_norm = {.plan = cpu_norm_plan,
                                    .forward = cpu_group_norm_forward,
                                    .backward = cpu_norm_backward,
                                    .fuses = true,
                                    .bf16 = true};
