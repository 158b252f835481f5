/* SPDX-License-Identifier: MIT */
/* linear by dnnl_sgemm on our row-major buffers: it reaches 100–130 GFLOP/s on one AVX-512 core at LeNet's
 * 64×800→500, so primitives that need other layouts would not pay for their reorders. bfloat16 products are
 * also left to oneDNN's primitives, whose reorders round the operands. */
#include <stdatomic.h>
#include <string.h>

#include "base/mem.h"
#include "compute/ops/op.h"
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/direct/direct.h"
#include "kernels/cpu/matrix.h"
#include "kernels/cpu/onednn.h"

/* Tensors of one pass. Without a bias, bias and dbias are NULL.
 *
 *   OP_FORWARD           reads x, weight, bias; writes y
 *   OP_BACKWARD_DATA     reads dy, weight; writes dx
 *   OP_BACKWARD_WEIGHTS  reads x, dy; writes dweight, dbias */
typedef struct linear_buffers {
    const void *x, *weight, *bias, *dy;
    void *y, *dx, *dweight, *dbias;
} linear_buffers_t;

static const char *const linear_bf16_name = "onednn/bf16";

typedef struct linear_bf16 {
    op_pass_t pass;
    onednn_chain_t *chain;
} linear_bf16_t;

/* oneDNN's description of the operator: matrices whose layouts, but for the bias, the primitive chooses. */
static err_t matrix_layouts(onednn_layout_t *theirs, onednn_layout_t *ours, int64_t rows, int64_t columns,
                            bool rounded)
{
    dnnl_dims_t dims = {rows, columns};
    TRY(onednn_layout_by_tag(theirs, 2, dims, rounded ? dnnl_bf16 : dnnl_f32, dnnl_format_tag_any,
                             "linear layout"));
    return onednn_layout_by_tag(ours, 2, dims, dnnl_f32, dnnl_ab, "linear layout");
}

/* Operands are bfloat16, results float32. */
static err_t shape_of(const op_desc_t *d, op_pass_t pass, onednn_tensors_t *s)
{
    int64_t n = d->y[0].dim[0], n_out = d->y[0].dim[1], n_in = d->param[0].dim[1];
    dnnl_dims_t bias = {n_out};
    TRY(matrix_layouts(&s->x, &s->our_x, n, n_in, pass != OP_BACKWARD_DATA));
    TRY(matrix_layouts(&s->y, &s->our_y, n, n_out, pass != OP_FORWARD));
    TRY(matrix_layouts(&s->weight, &s->our_weight, n_out, n_in, pass != OP_BACKWARD_WEIGHTS));
    TRY(onednn_layout_by_tag(&s->bias, 1, bias, dnnl_f32, dnnl_x, "linear bias layout"));
    s->has_bias = d->attr.linear.has_bias;
    return ERR_OK;
}

/* oneDNN's best implementation; *out is NULL if it has none but its reference loops. The caller frees the
 * shape, also after an error. */
static err_t find_primitive(const op_desc_t *d, op_pass_t pass, bool training, onednn_tensors_t *s,
                            dnnl_primitive_desc_t *out)
{
    onednn_offers_t *offers = NULL;
    *s = (onednn_tensors_t){.has_bias = false};
    *out = NULL;
    TRY(shape_of(d, pass, s));
    const onednn_product_t product = {.pass = pass,
                                      .training = training,
                                      .conv = dnnl_alg_kind_undef,
                                      .x = &s->x,
                                      .weight = &s->weight,
                                      .bias = s->has_bias ? &s->bias : NULL,
                                      .y = &s->y};
    TRY(onednn_offers_open(&product, "looking for implementations of linear", &offers));
    *out = onednn_offers_next(offers);
    onednn_offers_close(&offers);
    if (*out && strncmp(onednn_offer_name(*out), "ref:", strlen("ref:")) == 0) {
        dnnl_primitive_desc_destroy(*out);
        *out = NULL;
    }
    return ERR_OK;
}

/* Whether oneDNN has an implementation. */
static bool linear_bf16_fits(const op_desc_t *desc, op_pass_t pass, bool training)
{
    onednn_tensors_t s;
    dnnl_primitive_desc_t offer;
    if (desc->compute != DTYPE_BF16) return false;
    bool there = find_primitive(desc, pass, training, &s, &offer) == ERR_OK && offer;
    if (there) dnnl_primitive_desc_destroy(offer);
    onednn_tensors_free(&s);
    return there;
}

static void linear_bf16_free(linear_bf16_t **plan)
{
    if (!*plan) return;
    onednn_chain_free(&(*plan)->chain);
    mem_free(plan);
}

/* Only for descriptions that fit. On an error *out is unchanged. */
static err_t linear_bf16_new(const op_desc_t *desc, op_pass_t pass, bool training, linear_bf16_t **out,
                             size_t *n_workspace_bytes)
{
    err_t err;
    onednn_tensors_t s;
    dnnl_primitive_desc_t offer;
    linear_bf16_t *plan = NULL;
    TRY_OUT(err, find_primitive(desc, pass, training, &s, &offer));
    TRY_OUT(err, offer
                     ? ERR_OK
                     : err_raise(ERR_SYSTEM, __FILE__, __LINE__,
                                 "oneDNN has no bfloat16 implementation of linear, %s", op_pass_names[pass]));
    TRY_OUT(err, mem_new(sizeof *plan, "the plan of a product", &plan));
    plan->pass = pass;
    TRY_OUT(err, onednn_chain_new(offer, pass, &s, &plan->chain, n_workspace_bytes));
    *out = plan;
out:
    if (err != ERR_OK) linear_bf16_free(&plan);
    if (offer) dnnl_primitive_desc_destroy(offer);
    onednn_tensors_free(&s);
    return err;
}

/* Allocates nothing. workspace: 64-byte aligned. */
static err_t linear_bf16_run(const linear_bf16_t *plan, const linear_buffers_t *b, void *workspace)
{
    const void *const buffers[OP_PASS_COUNT][ONEDNN_OPERANDS] = {
        [OP_FORWARD] = {b->x, b->weight, b->y, b->bias},
        [OP_BACKWARD_DATA] = {b->dy, b->weight, b->dx},
        [OP_BACKWARD_WEIGHTS] = {b->x, b->dy, b->dweight, b->dbias}};
    return onednn_chain_run(plan->chain, buffers[plan->pass], workspace);
}

/* sgemm divides sums among threads. With many rows, tiles of a fixed size, one thread each, give the same bits on
 * any number of threads. */
enum { TILED_FROM = 256, TILE = 256 };

/* bfloat16 products have two algorithms: oneDNN's primitives, the default where the CPU has
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
