/* SPDX-License-Identifier: MIT */
/* linear: one cuBLASLt product per pass, with rounding, bias and ReLU in kernels around it where the library
 * cannot do them. */
#include <inttypes.h>

#include "base/mem.h"
#include "kernels/cuda/chunk.h"
#include "kernels/cuda/cuda.h"
#include "kernels/cuda/gemm.h"
#include "kernels/cuda/kernels_product.h"

/* The product includes the bias unless ReLU follows: then a kernel after it adds the bias, keeps NaN (the
 * library's max(x, 0) need not) and records what ReLU passed, which is saved. In backward a kernel computes
 * dy before the ReLU, in the type of the products, and its sum over the samples.
 *
 * Workspace: rounded operands, first and second; in backward dy and parts of its sums; then that of the
 * products. */
typedef struct linear_plan {
    gemm_t *gemm[OP_PASS_COUNT];
    cells_t cells;
    bool rounds, relu, bias;
    int n_parts;
    size_t second, gradient, parts, products; /* offsets in the workspace */
} linear_plan_t;

enum { LARGEST_WORKSPACE = 32 << 20 };

static err_t plan_product(const op_desc_t *d, op_pass_t pass, linear_plan_t *p)
{
    static const char *const what[] = {"linear, forward", "linear, backward_data",
                                       "linear, backward_weights"};
    int64_t n = d->y[0].dim[0], n_out = d->y[0].dim[1], n_in = d->param[0].dim[1];
    enum { WHOLE = 16 }; /* alignment of a buffer in bytes; cuBLASLt accounts for the rows itself */
    gemm_matrix_t x = {.row = n_in, .alignment = WHOLE}, y = {.row = n_out, .alignment = WHOLE};
    gemm_spec_t spec = {
        .what = what[pass], .compute = d->compute, .batch = 1, .n_workspace_bytes = LARGEST_WORKSPACE};
    int64_t workspace = cuda_workspace_bytes();
    if (workspace < LARGEST_WORKSPACE) spec.n_workspace_bytes = (size_t)workspace;
    if (pass == OP_FORWARD) {
        spec.m = n, spec.n = n_out, spec.k = n_in;
        spec.a = x, spec.b = x, spec.d = y;
        spec.b.transposed = true;
        spec.bias = p->bias && !p->relu;
    } else if (pass == OP_BACKWARD_DATA) {
        spec.m = n, spec.n = n_in, spec.k = n_out;
        spec.a = y, spec.b = x, spec.d = x;
    } else {
        spec.m = n_out, spec.n = n_in, spec.k = n;
        spec.a = y, spec.b = x, spec.d = x;
        spec.a.transposed = true;
    }
    return gemm_new(&spec, &p->gemm[pass]);
}

static void place_buffers(op_t *op, linear_plan_t *p)
{
    const op_desc_t *d = &op->desc;
    size_t x = (size_t)shape_count(d->x[0]), weight = (size_t)shape_count(d->param[0]),
           y = (size_t)shape_count(d->y[0]);
    size_t element = p->rounds ? sizeof(uint16_t) : sizeof(float), products = 0;
    p->n_parts = chunk_parts(p->cells.n, p->cells.channels);
    p->second = p->rounds ? mem_round(x * element) : 0;
    p->gradient = p->second + (p->rounds ? mem_round(weight * element) : 0);
    p->parts = p->gradient + (op->training && (p->rounds || p->relu) ? mem_round(y * element) : 0);
    p->products = p->parts;
    if (op->training && p->n_parts > 1)
        p->products += mem_round((size_t)(p->n_parts * p->cells.channels) * sizeof(float));
    p->products = (p->products + 255) / 256 * 256;
    for (int pass = 0; pass < OP_PASS_COUNT; pass++)
        if (p->gemm[pass] && gemm_workspace_bytes(p->gemm[pass]) > products)
            products = gemm_workspace_bytes(p->gemm[pass]);
    op->n_workspace_bytes = p->products + products;
    if (op->training && p->relu) op->n_saved_bytes = y;
}

static void cuda_linear_unplan(op_t *op)
{
    linear_plan_t *p = op->plan;
    for (int pass = 0; pass < OP_PASS_COUNT; pass++) gemm_free(&p->gemm[pass]);
    mem_free(&op->plan);
}

static err_t cuda_linear_plan(op_t *op)
{
    const op_desc_t *d = &op->desc;
    linear_plan_t *p;
    err_t err = ERR_OK;
    if (d->y[0].dim[0] > INT32_MAX || d->y[0].dim[1] > INT32_MAX)
        RAISE(ERR_USAGE, "linear: an output of %s is too large", shape_format(d->y[0]).text);
    TRY(mem_new(sizeof *p, "the plan of a product", &p));
    op->plan = p;
    p->cells = (cells_t){d->y[0].dim[0], 1, 1, (int)d->y[0].dim[1], 1, 1};
    p->rounds = d->compute == DTYPE_BF16;
    p->relu = d->attr.linear.epilogue.relu;
    p->bias = d->attr.linear.has_bias;
    for (int pass = 0; pass < (op->training ? OP_PASS_COUNT : 1) && err == ERR_OK; pass++)
        err = plan_product(d, (op_pass_t)pass, p);
    if (err == ERR_OK)
        place_buffers(op, p);
    else
        cuda_linear_unplan(op);
    return err;
}

/* x and the weight as the products need them; NULL for one that is not read. */
static err_t prepare_operands(const op_t *op, const op_args_t *args, const void **x, const void **weight)
{
    const linear_plan_t *p = op->plan;
    if (!p->rounds) return ERR_OK;
    uint16_t *first = args->workspace, *second = (void *)((char *)args->workspace + p->second);
    round_args_t round = {
        {*x, *weight},
        {first, second},
        {*x ? shape_count(op->desc.x[0]) : 0, *weight ? shape_count(op->desc.param[0]) : 0}};
    if (*x || *weight) E_CUDA(round_operands(&round, cuda_stream()), "linear, rounding");
    *x = first, *weight = second;
    return ERR_OK;
}

static err_t cuda_linear_forward(const op_t *op, const op_args_t *args)
{
    const linear_plan_t *p = op->plan;
    const void *x = args->x[0].data, *weight = args->param[0].data;
    TRY(prepare_operands(op, args, &x, &weight));
    gemm_call_t call = {.a = x,
                        .b = weight,
                        .bias = args->param[1].data,
                        .d = args->y[0].data,
                        .workspace = (char *)args->workspace + p->products};
    TRY(gemm_run(p->gemm[OP_FORWARD], &call));
    if (!p->relu) return ERR_OK;
    epilogue_args_t epilogue = {.cells = p->cells,
                                .relu = true,
                                .product = args->y[0].data,
                                .bias = p->bias ? args->param[1].data : NULL,
                                .y = args->y[0].data,
                                .mask = op->n_saved_bytes ? args->saved : NULL};
    E_CUDA(epilogue_forward(&epilogue, cuda_stream()), "linear, ReLU");
    return ERR_OK;
}

/* dy as the products need it, and the bias gradient. */
static err_t prepare_gradient(const op_t *op, const op_args_t *args, const void **dy)
{
    const linear_plan_t *p = op->plan;
    void *dense = (char *)args->workspace + p->gradient;
    float *parts = (void *)((char *)args->workspace + p->parts);
    bool sums = p->bias && args->dparam[1].data, converts = p->rounds || p->relu;
    *dy = converts ? dense : args->dy[0].data;
    if (!sums && !converts) return ERR_OK;
    gradient_args_t call = {.cells = p->cells,
                            .dy = args->dy[0].data,
                            .mask = p->relu ? args->saved : NULL,
                            .rounds = p->rounds,
                            .dense = converts && !p->rounds ? dense : NULL,
                            .dense_bf16 = p->rounds ? dense : NULL,
                            .sums = !sums            ? NULL
                                    : p->n_parts > 1 ? parts
                                                     : args->dparam[1].data,
                            .n_parts = p->n_parts};
    E_CUDA(epilogue_backward(&call, cuda_stream()), "linear, gradient of the bias");
    if (!sums || p->n_parts == 1) return ERR_OK;
    sums_args_t add = {parts, p->n_parts, p->cells.channels, p->cells.channels, args->dparam[1].data, NULL};
    E_CUDA(epilogue_sums(&add, cuda_stream()), "linear, gradient of the bias");
    return ERR_OK;
}

static err_t cuda_linear_backward(const op_t *op, const op_args_t *args)
{
    const linear_plan_t *p = op->plan;
    const void *x = args->dparam[0].data ? args->x[0].data : NULL,
               *weight = args->dx[0].data ? args->param[0].data : NULL, *dy;
    gemm_call_t call = {.workspace = (char *)args->workspace + p->products};
    TRY(prepare_gradient(op, args, &dy));
    TRY(prepare_operands(op, args, &x, &weight));
    call.a = dy;
    if (args->dparam[0].data) {
        call.b = x, call.d = args->dparam[0].data;
        TRY(gemm_run(p->gemm[OP_BACKWARD_WEIGHTS], &call));
    }
    if (!args->dx[0].data) return ERR_OK;
    call.b = weight, call.d = args->dx[0].data;
    return gemm_run(p->gemm[OP_BACKWARD_DATA], &call);
}

const op_kernel_t cuda_linear = {.plan = cuda_linear_plan,
                                 .forward = cuda_linear_forward,
                                 .backward = cuda_linear_backward,
                                 .unplan = cuda_linear_unplan,
                                 .fuses = true,
                                 .tf32 = true};
