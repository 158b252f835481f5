/* SPDX-License-Identifier: MIT */
/* Widens bfloat16 tensors before a kernel that takes only float32 and narrows them after it. The copies are
 * in the operator's workspace, after the kernel's. */
#include "compute/ops/narrow.h"

#include "base/mem.h"
#include "compute/ops/backend.h"
#include "compute/tensor/bf16.h"

/* Each tensor has its own copy, as kernels may read one while they write another. */
enum { X, DX = X + OP_MAX_INPUTS, Y = DX + OP_MAX_INPUTS, DY, N_COPIES };

static shape_t shape_of(const op_desc_t *d, int copy)
{
    return copy >= Y ? d->y : d->x[copy % OP_MAX_INPUTS];
}

static bool is_narrow(const op_desc_t *d, int copy)
{
    if (copy >= Y) return d->y_dtype == DTYPE_BF16;
    int input = copy % OP_MAX_INPUTS;
    return input < d->n_inputs && d->x_dtype[input] == DTYPE_BF16;
}

static size_t copy_bytes(const op_t *op, int copy)
{
    bool gradient = (copy >= DX && copy < Y) || copy == DY;
    if (!is_narrow(&op->desc, copy) || (gradient && !op->training)) return 0;
    return mem_round((size_t)shape_count(shape_of(&op->desc, copy)) * sizeof(float));
}

void narrow_plan(op_t *op)
{
    op->converts = true;
    op->n_kernel_bytes = op->n_workspace_bytes = mem_round(op->n_workspace_bytes);
    for (int i = 0; i < N_COPIES; i++) op->n_workspace_bytes += copy_bytes(op, i);
}

/* NULL if the tensor is float32 or absent. */
static float *copy_of(const op_t *op, const op_args_t *args, int copy, const void *tensor)
{
    char *at = (char *)args->workspace + op->n_kernel_bytes;
    for (int i = 0; i < copy; i++) at += copy_bytes(op, i);
    return tensor && is_narrow(&op->desc, copy) ? (float *)(void *)at : NULL;
}

/* The tensor, or its float32 copy, filled if `read`. */
static void *widened(const op_t *op, const op_args_t *args, int copy, const void *tensor, bool read)
{
    float *wide = copy_of(op, args, copy, tensor);
    if (wide && read) bf16_widen(wide, tensor, shape_count(shape_of(&op->desc, copy)));
    return wide ? (void *)wide : (void *)tensor;
}

static void narrow_back(const op_t *op, const op_args_t *args, int copy, void *tensor)
{
    const float *wide = copy_of(op, args, copy, tensor);
    if (wide) bf16_narrow(tensor, wide, shape_count(shape_of(&op->desc, copy)));
}

err_t narrow_forward(const op_t *op, const op_args_t *args)
{
    op_args_t wide = *args;
    for (int i = 0; i < op->desc.n_inputs; i++) wide.x[i] = widened(op, args, X + i, args->x[i], true);
    wide.y = widened(op, args, Y, args->y, false);
    TRY(op->backend->kernel[op->desc.kind]->forward(op, &wide));
    narrow_back(op, args, Y, args->y);
    return ERR_OK;
}

err_t narrow_backward(const op_t *op, const op_args_t *args)
{
    const op_traits_t *traits = op_traits(op->desc.kind);
    op_args_t wide = *args;
    for (int i = 0; i < op->desc.n_inputs; i++) {
        wide.x[i] = widened(op, args, X + i, args->x[i], i == 0 && traits->backward_needs_x);
        wide.dx[i] = widened(op, args, DX + i, args->dx[i], false);
    }
    wide.y = widened(op, args, Y, args->y, traits->backward_needs_y);
    wide.dy = widened(op, args, DY, args->dy, true);
    TRY(op->backend->kernel[op->desc.kind]->backward(op, &wide));
    for (int i = 0; i < op->desc.n_inputs; i++) narrow_back(op, args, DX + i, args->dx[i]);
    return ERR_OK;
}
