/* SPDX-License-Identifier: MIT */
/* Rounds the operands of reference products to bfloat16, in workspace, so that ref is the oracle for
 * bfloat16, too. */
#include "compute/tensor/float16.h"
#include "kernels/ref/ref.h"

/* Room for x, the weight and dy, in this order. */
err_t ref_round_plan(op_t *op)
{
    const op_desc_t *d = &op->desc;
    if (d->compute == DTYPE_BF16)
        op->n_workspace_bytes =
            (size_t)(shape_count(d->x[0]) + shape_count(d->param[0]) + shape_count(d->y[0])) * sizeof(float);
    return ERR_OK;
}

static float *rounded(const float *from, shape_t shape, float **to)
{
    float *begin = *to;
    for (int64_t i = 0; i < shape_count(shape) && from; i++) *(*to)++ = bf16_round(from[i]);
    return begin;
}

op_args_t ref_round(const op_t *op, const op_args_t *args)
{
    op_args_t out = *args;
    float *to = args->workspace;
    if (op->desc.compute != DTYPE_BF16) return out;
    out.x[0].data = rounded(args->x[0].data, op->desc.x[0], &to);
    out.param[0].data = rounded(args->param[0].data, op->desc.param[0], &to);
    out.dy[0].data = rounded(args->dy[0].data, op->desc.y[0], &to);
    return out;
}
