/* SPDX-License-Identifier: MIT */
/* Runs planned operators: checks the tensors of a call, and adds up gradients for kernels that only overwrite
 * them. */
#include "base/mem.h"
#include "compute/ops/backend.h"
#include "compute/ops/hd_buffer.h"
#include "compute/ops/narrow.h"

/* Sets shapes and types of n tensors, in float32 if dtypes is NULL. */
static void describe(tensor_t *tensors, int n, const shape_t *shapes, const dtype_t *dtypes)
{
    for (int i = 0; i < n; i++) tensors[i] = (tensor_t){NULL, shapes[i], dtypes ? dtypes[i] : DTYPE_F32};
}

op_args_t op_args(const op_t *op)
{
    const op_desc_t *d = &op->desc;
    op_args_t args = {.n_rows = -1, .loss = {1, 1}};
    describe(args.x, d->n_inputs, d->x, d->x_dtype);
    describe(args.dx, d->n_inputs, d->x, d->x_dtype);
    describe(args.y, d->n_outputs, d->y, d->y_dtype);
    describe(args.dy, d->n_outputs, d->y, d->y_dtype);
    describe(args.param, d->n_params, d->param, NULL);
    describe(args.dparam, d->n_params, d->param, NULL);
    describe(args.state, d->n_states, d->state, NULL);
    return args;
}

int64_t op_rows(const op_t *op, const op_args_t *args)
{
    int64_t n = op->desc.x[op_traits(op->desc.kind)->rows_input].dim[0];
    ASSERT(args->n_rows <= n);
    return args->n_rows < 0 ? n : args->n_rows;
}

/* Zeroes the rows of n tensors that a kernel has not computed, except in sums; NULL: there are none.
 *
 *   whole  the tensors do not consist of rows: all, if the kernel was not called */
static err_t zero_rest(const op_t *op, const op_args_t *args, const tensor_t *tensors, int n,
                       const bool *sums, bool whole)
{
    if (!op_traits(op->desc.kind)->counts_rows || (whole && op_rows(op, args) > 0)) return ERR_OK;
    for (int i = 0; i < n; i++) {
        const tensor_t *t = &tensors[i];
        int64_t row = shape_sample_count(t->shape) * (int64_t)dtype_size(t->dtype), first = op_rows(op, args);
        if (t->data && first < t->shape.dim[0] && !(sums && sums[i]))
            TRY(backend_zero(op->backend, (char *)t->data + first * row,
                             (size_t)((t->shape.dim[0] - first) * row)));
    }
    return ERR_OK;
}

/* Whether the kernel has nothing to compute. */
static bool is_empty(const op_t *op, const op_args_t *args)
{
    return op_traits(op->desc.kind)->counts_rows && op_rows(op, args) == 0;
}

/* Every tensor that is given has the planned shape and type. */
static void check(const tensor_t *tensors, int n, const shape_t *shapes, const dtype_t *dtypes)
{
    for (int i = 0; i < n; i++)
        ASSERT(!tensors[i].data || (tensors[i].dtype == (dtypes ? dtypes[i] : DTYPE_F32) &&
                                    shape_equal(tensors[i].shape, shapes[i])));
}

static void check_call(const op_desc_t *d, const op_args_t *args)
{
    check(args->x, d->n_inputs, d->x, d->x_dtype);
    check(args->y, d->n_outputs, d->y, d->y_dtype);
    check(args->param, d->n_params, d->param, NULL);
    check(args->state, d->n_states, d->state, NULL);
}

static void check_gradients(const op_desc_t *d, const op_args_t *args)
{
    check(args->dy, d->n_outputs, d->y, d->y_dtype);
    check(args->dx, d->n_inputs, d->x, d->x_dtype);
    check(args->dparam, d->n_params, d->param, NULL);
}

static const op_kernel_t *kernel_of(const op_t *op)
{
    return op->backend->kernel[op->desc.kind];
}

/* The kernel's copies of gradients (narrow.h) are not sums. */
static bool adds_dx(const op_t *op)
{
    return op->adds_dx && !op->converts;
}

static bool adds_dparam(const op_t *op)
{
    return op->adds_dparam && !op->converts;
}

static size_t addend_bytes(shape_t shape, dtype_t dtype)
{
    return mem_round((size_t)shape_count(shape) * dtype_size(dtype));
}

size_t op_addend_bytes(const op_t *op, const bool *accumulate_dx, const bool *accumulate_dparam)
{
    const op_desc_t *d = &op->desc;
    size_t n = 0;
    for (int i = 0; accumulate_dx && i < d->n_inputs && !adds_dx(op); i++)
        if (accumulate_dx[i]) n += addend_bytes(d->x[i], d->x_dtype[i]);
    for (int i = 0; accumulate_dparam && i < d->n_params && !adds_dparam(op); i++)
        if (accumulate_dparam[i]) n += addend_bytes(d->param[i], DTYPE_F32);
    return n;
}

/* Lets the kernel write gradients that are to be added to memory of their own, from *at on. */
static void redirect(tensor_t *gradients, int n, bool *accumulate, char **at)
{
    for (int i = 0; i < n; i++) {
        if (!accumulate[i] || !gradients[i].data) continue;
        accumulate[i] = false;
        gradients[i].data = *at;
        *at += addend_bytes(gradients[i].shape, gradients[i].dtype);
    }
}

static err_t add_gradients(const op_t *op, const tensor_t *sums, const tensor_t *written, int n)
{
    for (int i = 0; i < n; i++)
        if (sums[i].data != written[i].data)
            TRY(op->backend->accumulate(sums[i].data, written[i].data, shape_count(sums[i].shape),
                                        sums[i].dtype));
    return ERR_OK;
}

static err_t call_backward(const op_t *op, const op_args_t *args)
{
    if (!is_empty(op, args))
        TRY(op->converts ? narrow_backward(op, args) : kernel_of(op)->backward(op, args));
    return zero_rest(op, args, args->dx, op->desc.n_inputs, args->accumulate_dx,
                     op_traits(op->desc.kind)->rows_input > 0);
}

err_t op_forward(const op_t *op, const op_args_t *args)
{
    check_call(&op->desc, args);
    if (!is_empty(op, args)) TRY(op->converts ? narrow_forward(op, args) : kernel_of(op)->forward(op, args));
    return zero_rest(op, args, args->y, op->desc.n_outputs, NULL, false);
}

err_t op_backward(const op_t *op, const op_args_t *args)
{
    const op_desc_t *d = &op->desc;
    ASSERT(op->training);
    check_call(d, args);
    check_gradients(d, args);
    if (op_addend_bytes(op, args->accumulate_dx, args->accumulate_dparam) == 0)
        return call_backward(op, args);
    op_args_t own = *args;
    char *at = args->addend;
    ASSERT(at);
    if (!adds_dx(op)) redirect(own.dx, d->n_inputs, own.accumulate_dx, &at);
    if (!adds_dparam(op)) redirect(own.dparam, d->n_params, own.accumulate_dparam, &at);
    TRY(call_backward(op, &own));
    TRY(add_gradients(op, args->dx, own.dx, d->n_inputs));
    return add_gradients(op, args->dparam, own.dparam, d->n_params);
}
