/* SPDX-License-Identifier: MIT */
/* conv2d: lists the algorithms of kernels/cpu/conv, picks one per pass, and gives each its operands: rounded,
 * widened, or with the epilogue done separately, if the algorithm cannot do that itself. */
#include <string.h>

#include "base/mem.h"
#include "compute/tensor/float16.h"
#include "kernels/cpu/conv/conv.h"
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/direct/direct.h"
#include "kernels/cpu/loop.h"
#include "kernels/cpu/matrix.h"

static const conv_impl_t *const families[] = {conv_direct,   conv_onednn, conv_gemm,
                                              conv_winograd, conv_bf16,   conv_amx};
enum { N_FAMILIES = sizeof families / sizeof families[0] };

typedef struct pass_plan {
    const conv_impl_t *impl; /* NULL: pass not planned */
    conv_problem_t problem;
    void *plan;
} pass_plan_t;

/* Saved, with an epilogue: its mask. A ReLU alone that no algorithm fuses needs none: forward applies it to y, and
 * backward to dy, where y is not above 0. Workspace, in this order:
 *
 *   dense result between convolution and epilogue, for algorithms that do not fuse a larger one
 *   first and second operand, rounded, for algorithms that do not round
 *   float32 result, for algorithms that cannot write the tensor's own type
 *   the algorithm's own workspace */
typedef struct conv_plan {
    pass_plan_t pass[OP_PASS_COUNT];
    op_desc_t plain; /* without the epilogue */
    direct_conv_t cells;
    bool gated;                           /* by y, in place */
    size_t first_operand, second_operand; /* offsets of rounded operands */
    size_t wide, algorithm;
} conv_plan_t;

static op_desc_t plain_of(const op_desc_t *desc)
{
    op_desc_t plain = *desc;
    plain.attr.conv2d.epilogue = (epilogue_t){0};
    op_conv2d_cells(desc, &plain.y[0].dim[1], &plain.y[0].dim[2]);
    if (desc->attr.conv2d.epilogue.relu) plain.y_dtype[0] = DTYPE_F32;
    return plain;
}

/* The problem as `impl` gets it: with the epilogue only if it fuses it. */
static conv_problem_t problem_for(const conv_impl_t *impl, const op_desc_t *desc, const op_desc_t *plain,
                                  op_pass_t pass, bool training)
{
    bool fused = impl->fuses && pass != OP_BACKWARD_DATA;
    return (conv_problem_t){fused ? desc : plain, pass, training};
}

static const conv_impl_t *default_impl(const op_desc_t *plain, op_pass_t pass, bool training)
{
    conv_problem_t problem = {plain, pass, training};
    const conv_impl_t *impl = conv_amx_rule(&problem);
    if (!impl) impl = conv_bf16_rule(&problem);
    if (!impl) impl = conv_direct_rule(&problem);
    return impl ? impl : conv_onednn_rule(&problem);
}

/* The default comes first. */
static int cpu_conv2d_list(const op_desc_t *desc, op_pass_t pass, bool training, const char *only,
                           const char **names, int max)
{
    (void)only;
    op_desc_t plain = plain_of(desc);
    const conv_impl_t *first = default_impl(&plain, pass, training);
    int n = 0;
    if (first && max > 0) names[n++] = first->name;
    for (int i = 0; i < N_FAMILIES; i++)
        for (const conv_impl_t *impl = families[i]; impl->name; impl++) {
            conv_problem_t problem = problem_for(impl, desc, &plain, pass, training);
            if (n < max && impl != first && impl->fits(impl, &problem)) names[n++] = impl->name;
        }
    return n;
}

static const conv_impl_t *find_impl(const char *name)
{
    for (int i = 0; i < N_FAMILIES; i++)
        for (const conv_impl_t *impl = families[i]; impl->name; impl++)
            if (strcmp(impl->name, name) == 0) return impl;
    return NULL;
}

static err_t plan_pass(op_t *op, op_pass_t pass, conv_plan_t *plan)
{
    char *name = op->algorithms.name[pass];
    size_t n_bytes = 0;
    pass_plan_t *out = &plan->pass[pass];
    const conv_impl_t *impl = name[0] ? find_impl(name) : default_impl(&plan->plain, pass, op->training);
    if (!impl) TRY(mem_check_room("setting up algorithms"));
    if (!impl) RAISE(ERR_SYSTEM, "oneDNN has no implementation of conv2d, %s", op_pass_names[pass]);
    out->problem = problem_for(impl, &op->desc, &plan->plain, pass, op->training);
    TRY(impl->plan(impl, &out->problem, &out->plan, &n_bytes));
    out->impl = impl;
    strncpy(name, impl->name, OP_ALGORITHM_MAX - 1);
    if (n_bytes > op->n_workspace_bytes) op->n_workspace_bytes = n_bytes;
    return ERR_OK;
}

/* Whether the operands of this pass must be rounded for its algorithm. */
static bool must_round(const conv_plan_t *plan, op_pass_t pass)
{
    const conv_impl_t *impl = plan->pass[pass].impl;
    return impl && plan->plain.compute == DTYPE_BF16 && !impl->rounds;
}

/* Whether y or dx is computed in float32 and then narrowed. */
static bool narrows(const op_t *op, const conv_plan_t *plan, op_pass_t pass)
{
    dtype_t dtype = pass == OP_FORWARD ? op->desc.y_dtype[0] : op->desc.x_dtype[0];
    return dtype == DTYPE_BF16 && plan->pass[pass].impl &&
           (!plan->pass[pass].impl->rounds || (pass == OP_FORWARD && plan->cells.relu));
}

/* Whether backward needs a copy of dy for more than rounding: epilogues take float32. */
static bool widens_dy(const op_t *op, const conv_plan_t *plan)
{
    return op->training && plan->cells.relu && op->desc.y_dtype[0] == DTYPE_BF16;
}

/* First: the weight, or dy in backward. Second: x, or the weight in backward data. */
static void place_operands(const op_t *op, conv_plan_t *plan)
{
    size_t x = bf16_operand_bytes(op->desc.x[0]), weight = bf16_operand_bytes(op->desc.param[0]),
           dy = bf16_operand_bytes(op->desc.y[0]);
    bool forward = must_round(plan, OP_FORWARD);
    bool backward =
        must_round(plan, OP_BACKWARD_DATA) || must_round(plan, OP_BACKWARD_WEIGHTS) || widens_dy(op, plan);
    size_t y = narrows(op, plan, OP_FORWARD) ? dy : 0, dx = narrows(op, plan, OP_BACKWARD_DATA) ? x : 0;
    size_t first = backward && dy > weight ? dy : weight, second = backward && weight > x ? weight : x;
    plan->second_operand = plan->first_operand + (forward || backward ? first : 0);
    plan->wide = plan->second_operand + (forward || backward ? second : 0);
    plan->algorithm = plan->wide + (y > dx ? y : dx);
}

static bool fuses(const conv_plan_t *plan, op_pass_t pass)
{
    return plan->pass[pass].impl && plan->pass[pass].impl->fuses;
}

/* Whether the epilogue is a ReLU that is applied to y and dy. */
static bool is_gated(const op_t *op, const conv_plan_t *plan)
{
    const epilogue_t *e = &op->desc.attr.conv2d.epilogue;
    return e->relu && e->pool_h == 0 && op->desc.compute == DTYPE_F32 && !fuses(plan, OP_FORWARD) &&
           !fuses(plan, OP_BACKWARD_WEIGHTS);
}

/* Whether an algorithm can add to gradients, which it then writes without a copy. */
static bool adds(const op_t *op, const conv_plan_t *plan, op_pass_t pass)
{
    const conv_impl_t *impl = plan->pass[pass].impl;
    return impl && impl->adds && op->desc.x_dtype[0] == DTYPE_F32;
}

static void cpu_conv2d_unplan(op_t *op)
{
    conv_plan_t *plan = op->plan;
    for (int pass = 0; pass < OP_PASS_COUNT; pass++) {
        pass_plan_t *p = &plan->pass[pass];
        if (p->impl) p->impl->unplan(&p->plan);
    }
    mem_free(&op->plan);
}

static err_t cpu_conv2d_plan(op_t *op)
{
    conv_plan_t *p;
    ASSERT(op->desc.compute == DTYPE_BF16 || !op_is_narrow(&op->desc));
    TRY(mem_new(sizeof *p, "the plan of a convolution", &p));
    op->plan = p;
    err_t err = ERR_OK;
    p->plain = plain_of(&op->desc);
    p->cells = direct_conv_of(&op->desc);
    for (int pass = 0; pass < (op->training ? OP_PASS_COUNT : 1) && err == ERR_OK; pass++)
        err = plan_pass(op, (op_pass_t)pass, p);
    if (err != ERR_OK) {
        cpu_conv2d_unplan(op);
        return err;
    }
    p->gated = is_gated(op, p);
    if (p->gated) op->reads_y = OP_FIRST;
    op->adds_dx = adds(op, p, OP_BACKWARD_DATA);
    op->adds_dparam = adds(op, p, OP_BACKWARD_WEIGHTS);
    bool relu = p->cells.relu && !p->gated;
    if (relu && (op->training || !p->pass[OP_FORWARD].impl->fuses))
        p->first_operand = mem_round((size_t)shape_count(p->plain.y[0]) * sizeof(float));
    if (relu && op->training) op->n_saved_bytes = (size_t)shape_count(op->desc.y[0]);
    place_operands(op, p);
    op->n_workspace_bytes += p->algorithm;
    return ERR_OK;
}

static err_t run_pass(const conv_plan_t *plan, op_pass_t pass, const op_args_t *args,
                      const conv_buffers_t *buffers)
{
    const pass_plan_t *p = &plan->pass[pass];
    return p->impl->run(p->plan, &p->problem, buffers, (char *)args->workspace + plan->algorithm);
}

/* Operands for algorithms that do not round. */
static const float *weight_operand(const op_t *op, const op_args_t *args, size_t at)
{
    return bf16_operand(args->param[0].data, DTYPE_F32, op->desc.param[0], args->workspace, at);
}

static const float *x_operand(const op_t *op, const op_args_t *args, size_t at)
{
    return bf16_operand(args->x[0].data, op->desc.x_dtype[0], op->desc.x[0], args->workspace, at);
}

static err_t cpu_conv2d_forward(const op_t *op, const op_args_t *args)
{
    const conv_plan_t *p = op->plan;
    uint8_t *mask = op->n_saved_bytes ? args->saved : NULL;
    const conv_impl_t *impl = p->pass[OP_FORWARD].impl;
    bool apart = p->cells.relu && !impl->fuses && !p->gated, narrow = narrows(op, p, OP_FORWARD);
    float *dense = args->workspace;
    void *y = narrow ? (char *)args->workspace + p->wide : args->y[0].data;
    conv_buffers_t buffers = {.x = args->x[0].data,
                              .weight = args->param[0].data,
                              .bias = args->param[1].data,
                              .y = apart ? dense : y,
                              .mask = apart ? NULL : mask,
                              .relu = p->gated && impl->relus};
    if (must_round(p, OP_FORWARD)) {
        buffers.weight = weight_operand(op, args, p->first_operand);
        buffers.x = x_operand(op, args, p->second_operand);
    }
    TRY(run_pass(p, OP_FORWARD, args, &buffers));
    if (apart) direct_isa()->reduce(&p->cells, dense, y, mask);
    if (p->gated && !impl->relus) direct_isa()->reduce(&p->cells, y, y, NULL);
    if (narrow) bf16_narrow(args->y[0].data, y, shape_count(op->desc.y[0]));
    return ERR_OK;
}

static err_t backward_data(const op_t *op, const op_args_t *args, const void *dy)
{
    const conv_plan_t *p = op->plan;
    bool narrow = narrows(op, p, OP_BACKWARD_DATA);
    float *wide = (float *)((char *)args->workspace + p->wide);
    conv_buffers_t buffers = {.weight = args->param[0].data,
                              .dy = dy,
                              .dx = narrow ? wide : args->dx[0].data,
                              .add_dx = args->accumulate_dx[0]};
    if (must_round(p, OP_BACKWARD_DATA)) buffers.weight = weight_operand(op, args, p->second_operand);
    TRY(run_pass(p, OP_BACKWARD_DATA, args, &buffers));
    if (narrow) bf16_narrow(args->dx[0].data, wide, shape_count(op->desc.x[0]));
    return ERR_OK;
}

static err_t backward_weights(const op_t *op, const op_args_t *args, const void *dy, uint8_t *mask)
{
    const conv_plan_t *p = op->plan;
    conv_buffers_t buffers = {.x = args->x[0].data,
                              .dy = dy,
                              .dweight = args->dparam[0].data,
                              .dbias = args->dparam[1].data,
                              .mask = mask,
                              .add_dweight = args->accumulate_dparam[0],
                              .add_dbias = args->accumulate_dparam[1]};
    if (must_round(p, OP_BACKWARD_WEIGHTS)) buffers.x = x_operand(op, args, p->second_operand);
    return run_pass(p, OP_BACKWARD_WEIGHTS, args, &buffers);
}

LOOP_CLONES(gate_block, (float *restrict dy, const float *restrict y, int64_t n), (dy, y, n))
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++) dy[i] = y[i] > 0 ? dy[i] : 0;
}

static void gate(float *dy, const float *y, int64_t n)
{
#pragma omp parallel for schedule(static) if (n > LOOP_FORK_MIN)
    for (int64_t i = 0; i < n; i += LOOP_BLOCK) gate_block(dy + i, y + i, loop_count(i, n, LOOP_BLOCK));
}

static err_t cpu_conv2d_backward(const op_t *op, const op_args_t *args)
{
    const conv_plan_t *p = op->plan;
    bool data = args->dx[0].data, weights = args->dparam[0].data, relu = p->cells.relu && !p->gated;
    bool fused = relu && p->pass[OP_BACKWARD_WEIGHTS].impl->fuses;
    bool round_data = must_round(p, OP_BACKWARD_DATA), round_weights = must_round(p, OP_BACKWARD_WEIGHTS);
    const void *dy = args->dy[0].data; /* rounded if an algorithm needs it */
    if (p->gated) gate(args->dy[0].data, args->y[0].data, shape_count(op->desc.y[0]));
    if ((data && round_data) || (weights && round_weights) || widens_dy(op, p))
        dy = bf16_operand(args->dy[0].data, op->desc.y_dtype[0], op->desc.y[0], args->workspace,
                          p->first_operand);
    /* Rounding operands again does not change them. */
    if (relu && (data || (weights && !fused)))
        direct_isa()->expand(&p->cells, dy, args->saved, args->workspace);
    const void *dense = relu ? args->workspace : NULL;
    if (data) TRY(backward_data(op, args, dense ? dense : round_data ? dy : args->dy[0].data));
    if (!weights) return ERR_OK;
    if (fused) return backward_weights(op, args, dy, args->saved);
    return backward_weights(op, args, dense ? dense : round_weights ? dy : args->dy[0].data, NULL);
}

static double cpu_conv2d_macs(const op_t *op, op_pass_t pass)
{
    const pass_plan_t *p = &((const conv_plan_t *)op->plan)->pass[pass];
    return p->impl->macs ? p->impl->macs(p->plan, &p->problem) : -1;
}

const op_kernel_t cpu_conv2d = {.plan = cpu_conv2d_plan,
                                .forward = cpu_conv2d_forward,
                                .backward = cpu_conv2d_backward,
                                .unplan = cpu_conv2d_unplan,
                                .list = cpu_conv2d_list,
                                .macs = cpu_conv2d_macs,
                                .fuses = true,
                                .bf16 = true,
                                .mixes = true};
