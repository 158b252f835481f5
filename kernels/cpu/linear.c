#include <string.h>

#include "kernels/cpu/cpu.h"
#include "kernels/cpu/loop.h"
#include "kernels/cpu/onednn.h"

/* dnnl_sgemm on our row-major buffers reaches 100–130 GFLOP/s on one AVX-512 core at LeNet's 64×800→500,
 * which leaves nothing for primitives in layouts of their own and the reorders they cost. */

/* y = b in every row, so that the product is added to it. */
static void spread_bias(float *y, const float *bias, int64_t n_rows, int64_t n_out)
{
    for (int64_t row = 0; row < n_rows; row++) memcpy(y + row * n_out, bias, (size_t)n_out * sizeof(float));
}

/* Saved, with ReLU: one byte per output, 1 where it is above 0 (or NaN). Workspace: its gradient. */
static err_t plan(op_t *op)
{
    if (!op->desc.attr.linear.epilogue.relu) return ERR_OK;
    size_t n = (size_t)shape_count(op->desc.y);
    if (op->training) op->n_saved_bytes = n, op->n_workspace_bytes = n * sizeof(float);
    return ERR_OK;
}

LOOP_CLONES static void clip(float *restrict y, uint8_t *restrict on, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        bool keep = !(y[i] <= 0);
        y[i] = keep ? y[i] : 0;
        on[i] = keep;
    }
}

LOOP_CLONES static void clip_only(float *y, int64_t n)
{
    for (int64_t i = 0; i < n; i++) y[i] = y[i] <= 0 ? 0 : y[i];
}

LOOP_CLONES static void pass_on(float *restrict out, const float *restrict dy, const uint8_t *restrict on,
                                int64_t n)
{
    for (int64_t i = 0; i < n; i++) out[i] = on[i] ? dy[i] : 0;
}

static void relu(const op_t *op, const op_args_t *args)
{
    int64_t n = shape_count(op->desc.y);
    float *y = args->y;
    uint8_t *on = op->n_saved_bytes ? args->saved : NULL;
#pragma omp parallel for schedule(static) if (n > LOOP_FORK_MIN)
    for (int64_t i = 0; i < n; i += LOOP_BLOCK) {
        int64_t count = loop_count(i, n, LOOP_BLOCK);
        if (on)
            clip(y + i, on + i, count);
        else
            clip_only(y + i, count);
    }
}

/* dy before the ReLU. */
static const float *relu_backward(const op_t *op, const op_args_t *args)
{
    int64_t n = shape_count(op->desc.y);
    const float *dy = args->dy;
    float *out = args->workspace;
    const uint8_t *on = args->saved;
#pragma omp parallel for schedule(static) if (n > LOOP_FORK_MIN)
    for (int64_t i = 0; i < n; i += LOOP_BLOCK)
        pass_on(out + i, dy + i, on + i, loop_count(i, n, LOOP_BLOCK));
    return out;
}

static err_t forward(const op_t *op, const op_args_t *args)
{
    int64_t n = op->desc.y.dim[0], n_out = op->desc.y.dim[1], n_in = op->desc.param[0].dim[1];
    bool has_bias = op->desc.attr.linear.has_bias;
    if (has_bias) spread_bias(args->y, args->param[1], n, n_out);
    E_DNNL(dnnl_sgemm('N', 'T', n, n_out, n_in, 1, args->x[0], n_in, args->param[0], n_in, has_bias ? 1 : 0,
                      args->y, n_out),
           "sgemm, linear forward");
    if (op->desc.attr.linear.epilogue.relu) relu(op, args);
    return ERR_OK;
}

/* Sums of `width` columns of [n_rows, n_out], from the top down. */
LOOP_CLONES static void sum_columns(float *restrict sum, const float *restrict dy, int64_t n_rows,
                                    int64_t n_out, int64_t width)
{
    for (int64_t i = 0; i < width; i++) sum[i] = 0;
    for (int64_t row = 0; row < n_rows; row++)
        for (int64_t i = 0; i < width; i++) sum[i] += dy[row * n_out + i];
}

enum { COLUMN_BLOCK = 256 };

static err_t backward(const op_t *op, const op_args_t *args)
{
    int64_t n = op->desc.y.dim[0], n_out = op->desc.y.dim[1], n_in = op->desc.param[0].dim[1];
    const float *dy = op->desc.attr.linear.epilogue.relu ? relu_backward(op, args) : args->dy;
    E_DNNL(dnnl_sgemm('T', 'N', n_out, n_in, n, 1, dy, n_out, args->x[0], n_in, 0, args->dparam[0], n_in),
           "sgemm, linear weight gradient");
    if (args->dx[0])
        E_DNNL(dnnl_sgemm('N', 'N', n, n_in, n_out, 1, dy, n_out, args->param[0], n_in, 0, args->dx[0], n_in),
               "sgemm, linear data gradient");
    if (!op->desc.attr.linear.has_bias) return ERR_OK;
    float *dbias = args->dparam[1];
#pragma omp parallel for schedule(static) if (n * n_out > LOOP_FORK_MIN)
    for (int64_t i = 0; i < n_out; i += COLUMN_BLOCK)
        sum_columns(dbias + i, dy + i, n, n_out, loop_count(i, n_out, COLUMN_BLOCK));
    return ERR_OK;
}

const op_kernel_t cpu_linear = {.plan = plan, .fuses = true, .forward = forward, .backward = backward};
