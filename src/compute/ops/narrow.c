/* SPDX-License-Identifier: MIT */
/* Widens bfloat16 tensors before a kernel that takes only float32 and narrows them after it. The copies are
 * in the operator's workspace, after the kernel's. */
#include "compute/ops/narrow.h"

#include "base/mem.h"
#include "compute/ops/backend.h"
#include "compute/tensor/bf16.h"

/* Each tensor has its own copy, as kernels may read one while they write another. */
enum {
    X,
    DX = X + OP_MAX_INPUTS,
    Y = DX + OP_MAX_INPUTS,
    DY = Y + OP_MAX_OUTPUTS,
    END = DY + OP_MAX_OUTPUTS
};

static shape_t shape_of(const op_desc_t *d, int copy)
{
    return copy >= Y ? d->y[(copy - Y) % OP_MAX_OUTPUTS] : d->x[copy % OP_MAX_INPUTS];
}

static bool is_narrow(const op_desc_t *d, int copy)
{
    int input = copy % OP_MAX_INPUTS, output = (copy - Y) % OP_MAX_OUTPUTS;
    if (copy >= Y) return output < d->n_outputs && d->y_dtype[output] == DTYPE_BF16;
    return input < d->n_inputs && d->x_dtype[input] == DTYPE_BF16;
}

static size_t copy_bytes(const op_t *op, int copy)
{
    bool gradient = (copy >= DX && copy < Y) || copy >= DY;
    if (!is_narrow(&op->desc, copy) || (gradient && !op->training)) return 0;
    return mem_round((size_t)shape_count(shape_of(&op->desc, copy)) * sizeof(float));
}

void narrow_plan(op_t *op)
{
    op->converts = true;
    op->n_kernel_bytes = op->n_workspace_bytes = mem_round(op->n_workspace_bytes);
    for (int i = 0; i < END; i++) op->n_workspace_bytes += copy_bytes(op, i);
}

/* On a device its kernels convert, in the order of its stream. */
static err_t widen(const backend_t *backend, float *to, const uint16_t *from, int64_t n)
{
    if (backend->widen) return backend->widen(from, to, n, backend->device()->stream);
    bf16_widen(to, from, n);
    return ERR_OK;
}

static err_t narrow(const backend_t *backend, uint16_t *to, const float *from, int64_t n)
{
    if (backend->narrow) return backend->narrow(from, to, n, backend->device()->stream);
    bf16_narrow(to, from, n);
    return ERR_OK;
}

/* *out: the tensor, or its float32 copy, filled if `read`. */
static err_t widened(const op_t *op, const op_args_t *args, int copy, const tensor_t *tensor, bool read,
                     tensor_t *out)
{
    char *at = (char *)args->workspace + op->n_kernel_bytes;
    *out = *tensor;
    if (!tensor->data || tensor->dtype != DTYPE_BF16) return ERR_OK;
    for (int i = 0; i < copy; i++) at += copy_bytes(op, i);
    *out = (tensor_t){at, tensor->shape, DTYPE_F32};
    return read ? widen(op->backend, out->data, tensor->data, shape_count(tensor->shape)) : ERR_OK;
}

static err_t narrow_back(const op_t *op, const tensor_t *tensor, const tensor_t *wide)
{
    if (wide->data == tensor->data) return ERR_OK;
    return narrow(op->backend, tensor->data, wide->data, shape_count(tensor->shape));
}

err_t narrow_forward(const op_t *op, const op_args_t *args)
{
    const op_desc_t *d = &op->desc;
    op_args_t wide = *args;
    for (int i = 0; i < d->n_inputs; i++) TRY(widened(op, args, X + i, &args->x[i], true, &wide.x[i]));
    for (int i = 0; i < d->n_outputs; i++) TRY(widened(op, args, Y + i, &args->y[i], false, &wide.y[i]));
    TRY(op->backend->kernel[d->kind]->forward(op, &wide));
    for (int i = 0; i < d->n_outputs; i++) TRY(narrow_back(op, &args->y[i], &wide.y[i]));
    return ERR_OK;
}

err_t narrow_backward(const op_t *op, const op_args_t *args)
{
    const op_desc_t *d = &op->desc;
    op_args_t wide = *args;
    for (int i = 0; i < d->n_inputs; i++) {
        TRY(widened(op, args, X + i, &args->x[i], op->reads_x >> i & 1, &wide.x[i]));
        TRY(widened(op, args, DX + i, &args->dx[i], false, &wide.dx[i]));
    }
    for (int i = 0; i < d->n_outputs; i++) {
        TRY(widened(op, args, Y + i, &args->y[i], op->reads_y >> i & 1, &wide.y[i]));
        TRY(widened(op, args, DY + i, &args->dy[i], true, &wide.dy[i]));
    }
    TRY(op->backend->kernel[d->kind]->backward(op, &wide));
    for (int i = 0; i < d->n_inputs; i++) TRY(narrow_back(op, &args->dx[i], &wide.dx[i]));
    return ERR_OK;
}
