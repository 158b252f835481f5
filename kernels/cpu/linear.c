/* SPDX-License-Identifier: MIT */
/* linear by dnnl_sgemm on our row-major buffers: it reaches 100–130 GFLOP/s on one AVX-512 core at LeNet's
 * 64×800→500, so primitives that need other layouts would not pay for their reorders. bfloat16 by oneDNN's
 * primitives is in linear_bf16.c. */
#include <stdatomic.h>
#include <string.h>

#include "base/mem.h"
#include "kernels/cpu/bf16.h"
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/direct/direct.h"
#include "kernels/cpu/linear_bf16.h"
#include "kernels/cpu/matrix.h"
#include "kernels/cpu/onednn.h"

/* sgemm divides sums among threads. With many rows, tiles of a fixed size, one thread each, give the same bits on
 * any number of threads. */
enum { TILED_FROM = 256, TILE = 256 };

/* bfloat16 products have two algorithms: oneDNN's primitives (linear_bf16.c), the default where the CPU has
 * instructions for them, and dnnl_sgemm on rounded operands. float32 products have only one. */
static const char *const own_algorithm = "sgemm";

/* Saved, with ReLU: direct.h's mask. Workspace: the gradient before the ReLU, then rounded operands, then
 * oneDNN's own. */
typedef struct linear_plan {
    linear_bf16_t *bf16[OP_PASS_COUNT]; /* NULL: own_algorithm */
    bool rounds;                        /* some pass uses own_algorithm on rounded operands */
    size_t second_operand, primitive;   /* offsets; at 0 is dy, in forward the weight */
} linear_plan_t;

static int cpu_linear_list(const op_desc_t *desc, op_pass_t pass, bool training, const char *only,
                           const char **names, int max)
{
    (void)only;
    int n = 0;
    if (desc->compute != DTYPE_BF16) return 0;
    bool offered = linear_bf16_fits(desc, pass, training), native = offered && onednn_has_bf16();
    if (native && n < max) names[n++] = linear_bf16_name;
    if (n < max) names[n++] = own_algorithm;
    if (offered && !native && n < max) names[n++] = linear_bf16_name;
    return n;
}

/* Picks the algorithm of one pass of bfloat16 products. */
static err_t plan_pass(op_t *op, op_pass_t pass, linear_plan_t *plan)
{
    const char *first;
    char *name = op->algorithms.name[pass];
    size_t n_bytes = 0;
    if (!name[0] && cpu_linear_list(&op->desc, pass, op->training, NULL, &first, 1) == 1)
        memcpy(name, first, strlen(first) + 1);
    if (strcmp(name, linear_bf16_name) == 0)
        TRY(linear_bf16_new(&op->desc, pass, op->training, &plan->bf16[pass], &n_bytes));
    else
        plan->rounds = true;
    if (n_bytes > op->n_workspace_bytes) op->n_workspace_bytes = n_bytes;
    return ERR_OK;
}

static void cpu_linear_unplan(op_t *op)
{
    linear_plan_t *p = op->plan;
    for (int pass = 0; pass < OP_PASS_COUNT; pass++) linear_bf16_free(&p->bf16[pass]);
    mem_free(&op->plan);
}

static err_t cpu_linear_plan(op_t *op)
{
    const op_desc_t *d = &op->desc;
    linear_plan_t *p;
    err_t err = ERR_OK;
    TRY(mem_new(sizeof *p, "the plan of a product", &p));
    op->plan = p;
    for (int pass = 0; pass < (op->training ? OP_PASS_COUNT : 1) && d->compute == DTYPE_BF16; pass++)
        TRY_OUT(err, plan_pass(op, (op_pass_t)pass, p));
    size_t x = bf16_operand_bytes(d->x[0]), weight = bf16_operand_bytes(d->param[0]),
           dy = bf16_operand_bytes(d->y[0]);
    bool relu = d->attr.linear.epilogue.relu;
    p->second_operand = op->training && (relu || p->rounds) ? dy : 0;
    if (p->rounds && weight > p->second_operand) p->second_operand = weight;
    p->primitive = p->second_operand + (p->rounds ? x > weight ? x : weight : 0);
    op->n_workspace_bytes += p->primitive;
    if (op->training && relu) op->n_saved_bytes = (size_t)shape_count(d->y[0]);
    op->adds_dx = !p->bf16[OP_BACKWARD_DATA];
    op->adds_dparam = !p->bf16[OP_BACKWARD_WEIGHTS];
    return ERR_OK;
out:
    cpu_linear_unplan(op);
    return err;
}

/* An operand for own_algorithm: rounded for bfloat16 products. */
static const float *round_operand(const op_t *op, const op_args_t *args, const void *from, shape_t shape,
                                  size_t offset)
{
    return op->desc.compute == DTYPE_BF16 ? bf16_operand(from, DTYPE_F32, shape, args->workspace, offset)
                                          : from;
}

/* The epilogue of a convolution whose images have one pixel. */
static direct_conv_t cells_of(const op_desc_t *desc)
{
    return (direct_conv_t){.n = desc->y[0].dim[0],
                           .oh = 1,
                           .ow = 1,
                           .k = desc->y[0].dim[1],
                           .relu = true,
                           .pool_h = 1,
                           .pool_w = 1};
}

static void apply_relu(const op_t *op, const op_args_t *args)
{
    direct_conv_t cells = cells_of(&op->desc);
    direct_isa()->reduce(&cells, args->y[0].data, args->y[0].data, op->n_saved_bytes ? args->saved : NULL);
}

/* The gradient before the ReLU. */
static const float *linear_relu_backward(const op_t *op, const op_args_t *args)
{
    direct_conv_t cells = cells_of(&op->desc);
    direct_isa()->expand(&cells, args->dy[0].data, args->saved, args->workspace);
    return args->workspace;
}

/* y += x · weightᵀ, or y = with `beta` 0. */
static err_t multiply(const op_desc_t *d, const float *x, const float *weight, float beta, float *y)
{
    const int64_t n = d->y[0].dim[0], n_out = d->y[0].dim[1], n_in = d->param[0].dim[1];
    const bool tiled = n >= TILED_FROM;
    const int64_t tile_n = tiled ? TILE : n, tile_out = tiled ? TILE : n_out;
    atomic_int status = dnnl_success;
#pragma omp parallel for collapse(2) schedule(static) if (tiled)
    for (int64_t row = 0; row < n; row += tile_n)
        for (int64_t column = 0; column < n_out; column += tile_out) {
            const int64_t n_rows = n - row < tile_n ? n - row : tile_n;
            const int64_t n_columns = n_out - column < tile_out ? n_out - column : tile_out;
            const dnnl_status_t one =
                dnnl_sgemm('N', 'T', n_rows, n_columns, n_in, 1, x + row * n_in, n_in, weight + column * n_in,
                           n_in, beta, y + row * n_out + column, n_out);
            if (one != dnnl_success) status = (int)one;
        }
    E_DNNL((dnnl_status_t)status, "sgemm, linear forward");
    return ERR_OK;
}

static err_t linear_multiply(const op_t *op, const op_args_t *args)
{
    const op_desc_t *d = &op->desc;
    const linear_plan_t *p = op->plan;
    const float *weight = round_operand(op, args, args->param[0].data, d->param[0], 0);
    const float *x = round_operand(op, args, args->x[0].data, d->x[0], p->second_operand);
    const bool has_bias = d->attr.linear.has_bias;
    float *y = args->y[0].data;
    if (has_bias) matrix_spread_rows(y, args->param[1].data, d->y[0].dim[0], d->y[0].dim[1]);
    return multiply(d, x, weight, has_bias ? 1 : 0, y);
}

static err_t cpu_linear_forward(const op_t *op, const op_args_t *args)
{
    const linear_plan_t *p = op->plan;
    linear_buffers_t buffers = {
        args->x[0].data, args->param[0].data, args->param[1].data, NULL, args->y[0].data, NULL, NULL, NULL};
    if (p->bf16[OP_FORWARD])
        TRY(linear_bf16_run(p->bf16[OP_FORWARD], &buffers, (char *)args->workspace + p->primitive));
    else
        TRY(linear_multiply(op, args));
    if (op->desc.attr.linear.epilogue.relu) apply_relu(op, args);
    return ERR_OK;
}

static err_t backward_data(const op_t *op, const op_args_t *args, const float *dy)
{
    const op_desc_t *d = &op->desc;
    const linear_plan_t *p = op->plan;
    int64_t n = d->y[0].dim[0], n_out = d->y[0].dim[1], n_in = d->param[0].dim[1];
    const float *weight = round_operand(op, args, args->param[0].data, d->param[0], p->second_operand);
    const float beta = args->accumulate_dx[0] ? 1 : 0;
    E_DNNL(dnnl_sgemm('N', 'N', n, n_in, n_out, 1, dy, n_out, weight, n_in, beta, args->dx[0].data, n_in),
           "sgemm, linear data gradient");
    return ERR_OK;
}

static err_t backward_weights(const op_t *op, const op_args_t *args, const float *dy)
{
    const op_desc_t *d = &op->desc;
    const linear_plan_t *p = op->plan;
    int64_t n = d->y[0].dim[0], n_out = d->y[0].dim[1], n_in = d->param[0].dim[1];
    const float *x = round_operand(op, args, args->x[0].data, d->x[0], p->second_operand);
    const float beta = args->accumulate_dparam[0] ? 1 : 0;
    E_DNNL(dnnl_sgemm('T', 'N', n_out, n_in, n, 1, dy, n_out, x, n_in, beta, args->dparam[0].data, n_in),
           "sgemm, linear weight gradient");
    if (d->attr.linear.has_bias)
        matrix_sum_columns(args->dparam[1].data, dy, n, n_out, args->accumulate_dparam[1]);
    return ERR_OK;
}

static err_t cpu_linear_backward(const op_t *op, const op_args_t *args)
{
    const op_desc_t *d = &op->desc;
    const linear_plan_t *p = op->plan;
    const float *dy = d->attr.linear.epilogue.relu ? linear_relu_backward(op, args) : args->dy[0].data;
    linear_bf16_t *data = p->bf16[OP_BACKWARD_DATA], *weights = p->bf16[OP_BACKWARD_WEIGHTS];
    /* Rounding operands again does not change them. */
    if ((args->dparam[0].data && !weights) || (args->dx[0].data && !data))
        dy = round_operand(op, args, dy, d->y[0], 0);
    linear_buffers_t buffers = {args->x[0].data,      args->param[0].data, NULL, dy, NULL, args->dx[0].data,
                                args->dparam[0].data, args->dparam[1].data};
    void *workspace = (char *)args->workspace + p->primitive;
    if (args->dparam[0].data)
        TRY(weights ? linear_bf16_run(weights, &buffers, workspace) : backward_weights(op, args, dy));
    if (args->dx[0].data)
        TRY(data ? linear_bf16_run(data, &buffers, workspace) : backward_data(op, args, dy));
    return ERR_OK;
}

const op_kernel_t cpu_linear = {.plan = cpu_linear_plan,
                                .forward = cpu_linear_forward,
                                .backward = cpu_linear_backward,
                                .unplan = cpu_linear_unplan,
                                .list = cpu_linear_list,
                                .fuses = true};
