/* SPDX-License-Identifier: MIT */
/* Batch norm, training and inference. Statistics, running averages and coefficients are computed here; the
 * passes over memory are in batch_norm_rows.c. */
#include <math.h>

#include "kernels/cpu/batch_norm_rows.h"
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/loop.h"
#include "kernels/cpu/narrow.h"

/* oneDNN's primitive is not used: its sums depend on the number of threads. Here a group's rows (all
 * dimensions but the channels) are cut into blocks of a fixed size; each block is summed in float, and the
 * blocks are added in order, in double.
 *
 * Saved, for each group: mean [c], 1/std [c]; after all of these, with a fused addition and ReLU, each
 * group's mask (batch_norm_rows.h). Frozen, nothing is: backward reads y for the ReLU and never x, whose memory
 * y may take. */
enum { ROW_BLOCK = 4 * NORM_MASK_ROWS };

typedef struct norm {
    int64_t n_c, n_groups, n_rows, group_rows;
    int64_t mask_words; /* per group; 0: no mask */
    /* Workspace, in this order:
     *   sums         [2c + 1] a group's sums and their count
     *   over_groups  [2][c] sums over the groups
     *   coefficient  [3][c]
     *   partial      [blocks][2][c] the blocks' sums */
    double *sums, *over_groups;
    float *coefficient[3], *partial;
} norm_t;

/* Whether backward needs what forward saves. */
static bool keeps(const op_t *op)
{
    return op->training && !op->desc.attr.batch_norm.frozen;
}

static norm_t norm_of(const op_t *op, void *workspace)
{
    shape_t y = op->desc.y[0];
    int64_t group = op->desc.attr.batch_norm.group > 0 ? op->desc.attr.batch_norm.group : y.dim[0];
    norm_t n = {.n_c = op->desc.param[0].dim[0], .n_groups = (y.dim[0] + group - 1) / group};
    n.n_rows = shape_count(y) / n.n_c;
    n.group_rows = n.n_rows / y.dim[0] * (group < y.dim[0] ? group : y.dim[0]);
    if (keeps(op) && op->desc.n_inputs == 2 && op->desc.attr.batch_norm.epilogue.relu)
        n.mask_words = (n.group_rows + NORM_MASK_ROWS - 1) / NORM_MASK_ROWS * n.n_c;
    if (!workspace) return n;
    n.sums = workspace;
    n.over_groups = n.sums + 2 * n.n_c + 1;
    n.coefficient[0] = (float *)(n.over_groups + 2 * n.n_c);
    for (int i = 1; i < 3; i++) n.coefficient[i] = n.coefficient[0] + i * n.n_c;
    n.partial = n.coefficient[0] + 3 * n.n_c;
    return n;
}

static err_t cpu_batch_norm_plan(op_t *op)
{
    const batch_norm_attr_t *a = &op->desc.attr.batch_norm;
    norm_t n = norm_of(op, NULL);
    int64_t n_blocks = (n.group_rows + ROW_BLOCK - 1) / ROW_BLOCK;
    if (a->frozen) op->reads_x = 0, op->reads_y = a->epilogue.relu ? OP_FIRST : 0;
    if (keeps(op)) op->n_saved_bytes = (size_t)(n.n_groups * (2 * n.n_c + n.mask_words)) * sizeof(float);
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
        .relu = op->desc.attr.batch_norm.epilogue.relu,
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

/* Adds up the first n_values sums over all ranks that share statistics. */
static err_t share_sums(const op_args_t *args, const norm_t *n, int64_t n_values)
{
    return args->batch_norm.sum_shared
               ? args->batch_norm.sum_shared(args->batch_norm.context, n->sums, n_values)
               : ERR_OK;
}

/* mean, inverse_std [c]: of one group. The moments for the running averages are added to over_groups. */
static err_t group_moments(const op_t *op, const op_args_t *args, const norm_t *n, const norm_rows_t *rows,
                           float *mean, float *inverse_std)
{
    int64_t n_c = n->n_c, n_rows = rows->n_rows;
#pragma omp parallel for schedule(static) if (forks(rows))
    for (int64_t i = 0; i < n_rows; i += ROW_BLOCK) {
        norm_rows_t block = block_of(rows, i);
        norm_rows_sum(&block, n->partial + i / ROW_BLOCK * 2 * n_c);
    }
    add_blocks(n, n_rows, 1);
    TRY(share_sums(args, n, n_c + 1));
    for (int64_t c = 0; c < n_c; c++) {
        double value = n->sums[c] / n->sums[n_c];
        mean[c] = (float)value;
        n->over_groups[c] += value;
    }
    add_squares(n, n_rows, mean);
    TRY(share_sums(args, n, n_c + 1));
    double count = n->sums[n_c];
    for (int64_t c = 0; c < n_c; c++) {
        inverse_std[c] = (float)(1 / sqrt(n->sums[c] / count + op->desc.attr.batch_norm.epsilon));
        n->over_groups[n_c + c] += n->sums[c] / (count > 1 ? count - 1 : 1);
    }
    return ERR_OK;
}

static void running_moments(const op_t *op, const op_args_t *args, const norm_t *n, float *mean,
                            float *inverse_std)
{
    const float *running_mean = args->state[0].data, *running_variance = args->state[1].data;
    for (int64_t c = 0; c < n->n_c; c++) {
        mean[c] = running_mean[c];
        inverse_std[c] = (float)(1 / sqrt(running_variance[c] + op->desc.attr.batch_norm.epsilon));
    }
}

/* All rows, with coefficients 0 and 1 as `normalize` takes them. */
static norm_rows_t running_rows(const op_t *op, const op_args_t *args, const norm_t *n)
{
    const float *gamma = args->param[0].data;
    norm_rows_t rows = rows_of_group(op, args, n, 0);
    running_moments(op, args, n, n->coefficient[0], n->coefficient[2]);
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

static err_t train_forward(const op_t *op, const op_args_t *args, const norm_t *n)
{
    const batch_norm_attr_t *a = &op->desc.attr.batch_norm;
    const float *gamma = args->param[0].data;
    float *mean = n->coefficient[0], *scale = n->coefficient[1], *inverse_std = n->coefficient[2];
    for (int64_t i = 0; i < 2 * n->n_c; i++) n->over_groups[i] = 0;
    for (int64_t g = 0; g < n->n_groups; g++) {
        norm_rows_t rows = rows_of_group(op, args, n, g);
        float *saved = op->n_saved_bytes ? (float *)args->saved + 2 * g * n->n_c : NULL;
        TRY(group_moments(op, args, n, &rows, mean, inverse_std));
        for (int64_t c = 0; c < n->n_c; c++) {
            scale[c] = gamma[c] * inverse_std[c];
            if (saved) saved[c] = mean[c], saved[n->n_c + c] = inverse_std[c];
        }
        normalize(n, &rows, row_at(&rows, args->y[0].data, g * n->group_rows));
    }
    update_running(args->state[0].data, n->over_groups, n, a->momentum);
    update_running(args->state[1].data, n->over_groups + n->n_c, n, a->momentum);
    return ERR_OK;
}

static err_t cpu_batch_norm_forward(const op_t *op, const op_args_t *args)
{
    norm_t n = norm_of(op, args->workspace);
    if (args->training && !op->desc.attr.batch_norm.frozen) return train_forward(op, args, &n);
    norm_rows_t rows = running_rows(op, args, &n);
    normalize(&n, &rows, args->y[0].data);
    return ERR_OK;
}

/* Adds a group's sums to over_groups, and makes coefficients 1 and 2 of the sums over all ranks. */
static err_t use_sums(const op_args_t *args, const norm_t *n, const norm_rows_t *rows)
{
    const int64_t n_c = n->n_c;
    const float *inverse_std = rows->mean + n_c;
    add_blocks(n, rows->n_rows, 2);
    for (int64_t c = 0; c < n_c; c++) {
        n->over_groups[c] += n->sums[c];
        n->over_groups[n_c + c] += n->sums[n_c + c] * inverse_std[c];
    }
    TRY(share_sums(args, n, 2 * n_c + 1));
    for (int64_t c = 0; c < n_c; c++) {
        double count = n->sums[2 * n_c], invert = inverse_std[c];
        n->coefficient[1][c] = (float)(n->sums[c] / count);
        n->coefficient[2][c] = (float)(invert * invert * n->sums[n_c + c] / count);
    }
    return ERR_OK;
}

/* One group: adds its part of dγ and dβ to over_groups and writes its dx. With x̂ = (x−mean)/std: dβ = Σ dy,
 * dγ = Σ dy·x̂, dx = γ/std · (dy − (dβ + x̂·dγ)/n), where dx takes the sums and the count over all ranks that
 * share statistics; Ioffe & Szegedy 2015, section 3. */
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

static err_t cpu_batch_norm_backward(const op_t *op, const op_args_t *args)
{
    norm_t n = norm_of(op, args->workspace);
    if (op->desc.attr.batch_norm.frozen) return frozen_backward(op, args, &n);
    float *dgamma = args->dparam[0].data, *dbeta = args->dparam[1].data;
    for (int64_t i = 0; i < 2 * n.n_c; i++) n.over_groups[i] = 0;
    for (int64_t g = 0; g < n.n_groups; g++) TRY(backward_group(op, args, &n, g));
    for (int64_t c = 0; c < n.n_c && dgamma; c++) {
        dbeta[c] = (float)n.over_groups[c];
        dgamma[c] = (float)n.over_groups[n.n_c + c];
    }
    return ERR_OK;
}

const op_kernel_t cpu_batch_norm = {.plan = cpu_batch_norm_plan,
                                    .forward = cpu_batch_norm_forward,
                                    .backward = cpu_batch_norm_backward,
                                    .fuses = true,
                                    .bf16 = true};
