/* SPDX-License-Identifier: MIT */
/* Plans and launches batch norm: places workspace, and shares sums between ranks through the host. The passes
 * over memory, and their parts, are in batch_norm.cu. */
#include "base/mem.h"
#include "kernels/cuda/cuda.h"
#include "kernels/cuda/kernels.h"

/* Sums are in double over fixed parts of a group's rows, and the parts are added in a fixed order: the bits
 * depend only on the shape. Σx² in double, of bfloat16 by exact or nearly exact rounds in float32 (add_rows in
 * batch_norm.cu), resolves any variance that x can have, so one pass over x is enough.
 *
 * Saved: mean [c] and 1/std [c] of each group, unless frozen; then, with a fused addition and ReLU, the mask.
 * op->plan: host buffer for shared sums. */
static norm_t norm_of(const op_t *op)
{
    const batch_norm_attr_t *a = &op->desc.attr.batch_norm;
    shape_t y = op->desc.y[0];
    int64_t group = a->group > 0 && a->group < y.dim[0] ? a->group : y.dim[0];
    norm_t n = {.n_c = op->desc.param[0].dim[0],
                .n_groups = (y.dim[0] + group - 1) / group,
                .narrow = op_is_all_narrow(&op->desc),
                .relu = a->epilogue.relu,
                .momentum = a->momentum,
                .epsilon = a->epsilon};
    n.n_rows = shape_count(y) / n.n_c;
    n.group_rows = n.n_rows / y.dim[0] * group;
    batch_norm_divide(&n);
    return n;
}

static int64_t n_moments(const norm_t *n)
{
    return n->n_groups * 2 * n->n_c;
}

/* Whether backward needs the moments, and the mask. */
static bool keeps_moments(const op_t *op)
{
    return op->training && !op->desc.attr.batch_norm.frozen;
}

static bool keeps_mask(const op_t *op)
{
    return op->training && op->desc.attr.batch_norm.epilogue.relu && op->desc.n_inputs == 2;
}

static size_t moments_bytes(const op_t *op, const norm_t *n)
{
    return keeps_moments(op) ? (size_t)n_moments(n) * sizeof(float) : 0;
}

static norm_t norm_with(const op_t *op, const op_args_t *args)
{
    norm_t n = norm_of(op);
    n.x = args->x[0].data;
    n.shortcut = op->desc.n_inputs == 2 ? args->x[1].data : NULL;
    n.mask = keeps_mask(op) ? (uint8_t *)args->saved + moments_bytes(op, &n) : NULL;
    n.gamma = args->param[0].data, n.beta = args->param[1].data;
    n.shared = args->batch_norm.sum_shared != NULL;
    n.partial = args->workspace;
    n.sums = n.partial + n_moments(&n) * n.n_sum_parts;
    n.correction = (float *)(n.sums + n_moments(&n) + 2); /* aligned for packs */
    /* The workspace has room for both: without backward the moments are not kept. */
    n.moments = keeps_moments(op) ? args->saved : n.correction;
    n.running_mean = args->state[0].data, n.running_variance = args->state[1].data;
    return n;
}

static err_t cuda_batch_norm_plan(op_t *op)
{
    norm_t n = norm_of(op);
    int64_t n_doubles = n_moments(&n) * (n.n_sum_parts + 1) + 2;
    op->n_workspace_bytes = (size_t)n_doubles * sizeof(double) + (size_t)n_moments(&n) * sizeof(float);
    op->n_saved_bytes = moments_bytes(op, &n) + (keeps_mask(op) ? batch_norm_mask_bytes(&n) : 0);
    if (!keeps_moments(op) || n.n_groups > 1) return ERR_OK;
    double *host;
    TRY(mem_new_array(2 * n.n_c + 1, sizeof *host, "statistics to share", &host));
    op->plan = host;
    return ERR_OK;
}

static void cuda_batch_norm_unplan(op_t *op)
{
    mem_free(&op->plan);
}

/* Sums and row count over all ranks that share statistics. No other operator blocks the host. */
static err_t share_sums(const op_t *op, const op_args_t *args, const norm_t *n)
{
    ASSERT(n->n_groups == 1 && op->plan);
    size_t n_bytes = (size_t)(2 * n->n_c + 1) * sizeof(double);
    if (cuda_recorded(0))
        RAISE(ERR_USAGE,
              "batch norm over all ranks cannot be part of a recorded step, as it waits for them; use "
              "--cuda-graph off");
    TRY(cuda_memory.download(op->plan, n->sums, n_bytes));
    TRY(cuda_memory.sync());
    TRY(args->batch_norm.sum_shared(args->batch_norm.context, op->plan, 2 * n->n_c + 1));
    return cuda_memory.upload(n->sums, op->plan, n_bytes);
}

static err_t sum_groups(const op_t *op, const op_args_t *args, const norm_t *n)
{
    E_CUDA(batch_norm_sum(n, cuda_stream()), "batch norm's sums");
    if (n->shared) TRY(share_sums(op, args, n));
    if (n->shared || n->n_groups > 1) E_CUDA(batch_norm_finish(n, cuda_stream()), "batch norm's statistics");
    return ERR_OK;
}

static err_t cuda_batch_norm_forward(const op_t *op, const op_args_t *args)
{
    norm_t n = norm_with(op, args);
    n.y = args->y[0].data;
    if (args->training && !op->desc.attr.batch_norm.frozen)
        TRY(sum_groups(op, args, &n));
    else
        n.moments = NULL;
    if (!args->training) n.mask = NULL;
    E_CUDA(batch_norm_apply(&n, cuda_stream()), "batch norm");
    return ERR_OK;
}

static err_t cuda_batch_norm_backward(const op_t *op, const op_args_t *args)
{
    norm_t n = norm_with(op, args);
    n.dy = args->dy[0].data, n.dx = args->dx[0].data;
    n.dshortcut = op->desc.n_inputs == 2 ? args->dx[1].data : NULL;
    n.dgamma = args->dparam[0].data, n.dbeta = args->dparam[1].data;
    if (op->desc.attr.batch_norm.frozen)
        n.moments = n.correction = NULL;
    else
        TRY(sum_groups(op, args, &n));
    if (n.dx || n.dshortcut) E_CUDA(batch_norm_apply(&n, cuda_stream()), "batch norm, backward");
    return ERR_OK;
}

const op_kernel_t cuda_batch_norm = {.plan = cuda_batch_norm_plan,
                                     .forward = cuda_batch_norm_forward,
                                     .backward = cuda_batch_norm_backward,
                                     .unplan = cuda_batch_norm_unplan,
                                     .fuses = true,
                                     .bf16 = true};
