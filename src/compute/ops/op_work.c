/* SPDX-License-Identifier: MIT */
/* The least work of a pass: multiply-adds by its algorithm, and bytes that it surely reads or writes. */
#include "compute/ops/backend.h"

static double bytes_of(shape_t shape, dtype_t dtype)
{
    return (double)shape_count(shape) * (double)dtype_size(dtype);
}

/* Of an input, as forward reads it. */
static double read_bytes(const op_desc_t *d, int input)
{
    const op_traits_t *traits = op_traits(d->kind);
    const int64_t n = traits->reads ? traits->reads(d, input) : shape_count(d->x[input]);
    return traits->loss ? 0 : (double)n * (double)dtype_size(d->x_dtype[input]);
}

static double param_bytes(const op_desc_t *d, const op_args_t *args)
{
    double bytes = 0;
    for (int i = 0; i < d->n_params; i++)
        bytes += bytes_of(d->param[i], args->param_bf16[i] ? DTYPE_BF16 : DTYPE_F32);
    return bytes;
}

static double forward_bytes(const op_t *op, const op_args_t *args)
{
    const op_desc_t *d = &op->desc;
    const bool saves = args->training && !op_traits(d->kind)->counts_rows; /* else only of some rows */
    double bytes = param_bytes(d, args) + (saves ? (double)op->n_saved_bytes : 0);
    for (int i = 0; i < d->n_inputs; i++) bytes += read_bytes(d, i);
    for (int i = 0; i < d->n_outputs; i++)
        if (args->y[i].data) bytes += bytes_of(d->y[i], d->y_dtype[i]);
    return bytes;
}

/* Of the tensors of forward that backward reads. */
static double kept_bytes(const op_t *op)
{
    const op_desc_t *d = &op->desc;
    double bytes = (double)op->n_saved_bytes;
    for (int i = 0; i < d->n_inputs; i++)
        if (op->reads_x >> i & 1) bytes += read_bytes(d, i);
    for (int i = 0; i < d->n_outputs; i++)
        if (op->reads_y >> i & 1) bytes += bytes_of(d->y[i], d->y_dtype[i]);
    return bytes;
}

static double dparam_bytes(const op_desc_t *d, const op_args_t *args)
{
    double bytes = 0;
    for (int i = 0; i < d->n_params; i++)
        if (args->dparam[i].data)
            bytes += bytes_of(d->param[i], DTYPE_F32) * (args->accumulate_dparam[i] ? 2 : 1);
    return bytes;
}

/* A gradient in the memory of dy is dy, or, of a first input, overwrites it. */
static double dx_bytes(const op_desc_t *d, const op_args_t *args)
{
    double bytes = 0;
    for (int i = 0; i < d->n_inputs; i++) {
        const bool same = args->dx[i].data == args->dy[0].data && (i > 0 || op_traits(d->kind)->copies_dy);
        if (!args->dx[i].data || same) continue;
        bytes += args->accumulate_dx[i] ? 2 * read_bytes(d, i) : bytes_of(d->x[i], d->x_dtype[i]);
    }
    return bytes;
}

/* One of two passes that both read dy. Data may read it as weights has rounded it. What the epilogue needs is read once:
 * by weights, which not every layer has. */
static double product_bytes(const op_t *op, const op_args_t *args, op_pass_t pass)
{
    const op_desc_t *d = &op->desc;
    const size_t rounded = dtype_size(d->compute), stored = dtype_size(d->y_dtype[0]);
    const double dy = (double)shape_count(d->y[0]);
    if (pass == OP_BACKWARD_WEIGHTS) return dy * (double)stored + kept_bytes(op) + dparam_bytes(d, args);
    return dy * (double)(rounded < stored ? rounded : stored) + param_bytes(d, args) + dx_bytes(d, args);
}

static double backward_bytes(const op_t *op, const op_args_t *args)
{
    const op_desc_t *d = &op->desc;
    const op_traits_t *traits = op_traits(d->kind);
    const double written = dx_bytes(d, args) + dparam_bytes(d, args);
    bool wanted = args->dparam[0].data;
    for (int i = 0; i < d->n_inputs; i++) wanted = wanted || args->dx[i].data;
    if (traits->loss || !wanted || (traits->copies_dy && written <= 0)) return written;
    return written + bytes_of(d->y[0], d->y_dtype[0]) + (traits->copies_dy ? 0 : kept_bytes(op));
}

op_work_t op_work(const op_t *op, const op_args_t *args, op_pass_t pass)
{
    const op_desc_t *d = &op->desc;
    const op_traits_t *traits = op_traits(d->kind);
    const op_kernel_t *kernel = op->backend->kernel[d->kind];
    if (!traits->macs) {
        if (pass == OP_FORWARD) return (op_work_t){0, forward_bytes(op, args)};
        return (op_work_t){0, pass == OP_BACKWARD_DATA ? backward_bytes(op, args) : 0};
    }
    if (pass == OP_BACKWARD_DATA && !args->dx[0].data) return (op_work_t){0, 0};
    if (pass == OP_BACKWARD_WEIGHTS && !args->dparam[0].data) return (op_work_t){0, 0};
    double macs = kernel->macs ? kernel->macs(op, pass) : -1;
    if (macs < 0) macs = (double)(traits->inner_macs ? traits->inner_macs(d) : traits->macs(d));
    return (op_work_t){macs, pass == OP_FORWARD ? forward_bytes(op, args) : product_bytes(op, args, pass)};
}
