#include "kernels/cpu/cpu.h"
#include "kernels/cpu/loop.h"
#include "kernels/cpu/matrix.h"
#include "kernels/cpu/onednn.h"

/* dnnl_sgemm on our row-major buffers reaches 100–130 GFLOP/s on one AVX-512 core at LeNet's 64×800→500,
 * which leaves nothing for primitives in layouts of their own and the reorders they cost. */

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
    if (has_bias) matrix_spread_rows(args->y, args->param[1], n, n_out);
    E_DNNL(dnnl_sgemm('N', 'T', n, n_out, n_in, 1, args->x[0], n_in, args->param[0], n_in, has_bias ? 1 : 0,
                      args->y, n_out),
           "sgemm, linear forward");
    if (op->desc.attr.linear.epilogue.relu) relu(op, args);
    return ERR_OK;
}

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
    matrix_sum_columns(args->dparam[1], dy, n, n_out);
    return ERR_OK;
}

const op_kernel_t cpu_linear = {.plan = plan, .fuses = true, .forward = forward, .backward = backward};
