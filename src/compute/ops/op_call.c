/* SPDX-License-Identifier: MIT */
/* Plans and runs operators on a backend: algorithms as requested; float32 copies for kernels that take only float32;
 * gradients added up for kernels that only overwrite them. And the least work of a call: multiply-adds by its
 * algorithm, and bytes that it surely reads or writes. */
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "compute/ops/backend.h"
#include "compute/ops/hd_buffer.h"
#include "compute/tensor/float16.h"

/* ---- Planning ---- */
/* Float32 copies of bfloat16 tensors are in the workspace, after the kernel's. Each tensor has its own, as kernels may
 * read one while they write another. */
enum {
    X,
    DX = X + OP_MAX_INPUTS,
    Y = DX + OP_MAX_INPUTS,
    DY = Y + OP_MAX_OUTPUTS,
    END = DY + OP_MAX_OUTPUTS
};

static size_t copy_bytes(const op_t *op, int copy)
{
    const op_desc_t *d = &op->desc;
    const bool output = copy >= Y, gradient = (copy >= DX && copy < Y) || copy >= DY;
    const int i = output ? (copy - Y) % OP_MAX_OUTPUTS : copy % OP_MAX_INPUTS;
    const bool exists = i < (output ? d->n_outputs : d->n_inputs);
    if (!exists || (output ? d->y_dtype[i] : d->x_dtype[i]) != DTYPE_BF16) return 0;
    if (gradient && !op->training) return 0;
    return mem_round((size_t)shape_count(output ? d->y[i] : d->x[i]) * sizeof(float));
}

void narrow_plan(op_t *op)
{
    op->converts = true;
    op->n_kernel_bytes = op->n_workspace_bytes = mem_round(op->n_workspace_bytes);
    for (int i = 0; i < END; i++) op->n_workspace_bytes += copy_bytes(op, i);
}

int op_list_algorithms(const backend_t *backend, const op_desc_t *desc, op_pass_t pass, bool training,
                       const char **names, int max)
{
    const op_kernel_t *kernel = backend->kernel[desc->kind];
    return kernel && kernel->list ? kernel->list(desc, pass, training, NULL, names, max) : 0;
}

bool op_has_algorithm(const backend_t *backend, const op_desc_t *desc, op_pass_t pass, bool training,
                      const char *name)
{
    const char *names[OP_MAX_ALGORITHMS];
    const op_kernel_t *kernel = backend->kernel[desc->kind];
    int n = kernel && kernel->list ? kernel->list(desc, pass, training, name, names, OP_MAX_ALGORITHMS) : 0;
    while (n > 0 && strcmp(names[n - 1], name) != 0) n--;
    return n > 0;
}

/* Stores the requested algorithm of one pass, if the backend has it. */
static err_t want_algorithm(op_t *op, op_pass_t pass, const char *wanted)
{
    const char *names[OP_MAX_ALGORITHMS];
    char key[OP_KEY_MAX], choice[512] = "";
    if (!wanted[0]) return ERR_OK;
    if (op_has_algorithm(op->backend, &op->desc, pass, op->training, wanted)) {
        snprintf(op->algorithms.name[pass], OP_ALGORITHM_MAX, "%s", wanted);
        return ERR_OK;
    }
    int n = op_list_algorithms(op->backend, &op->desc, pass, op->training, names, OP_MAX_ALGORITHMS);
    for (int i = 0; i < n; i++) {
        size_t used = strlen(choice);
        snprintf(choice + used, sizeof choice - used, "%s%s", used ? ", " : "", names[i]);
    }
    /* A backend lists only algorithms that it could set up. */
    TRY(mem_check_room("setting up algorithms"));
    op_key(&op->desc, key);
    if (n == 0)
        RAISE(ERR_USAGE, "%s, %s: the %s backend offers no choice of algorithms, but '%s' was requested", key,
              op_pass_names[pass], op->backend->name, wanted);
    RAISE(ERR_USAGE, "%s, %s: algorithm '%s' is not available; choose from %s", key, op_pass_names[pass],
          wanted, choice);
}

err_t op_plan(const backend_t *backend, const op_desc_t *desc, bool training, const op_algorithms_t *wanted,
              op_t **out)
{
    const op_kernel_t *kernel = backend->kernel[desc->kind];
    if (!kernel)
        RAISE(ERR_SYSTEM, "the %s backend has no %s; use --device cpu", backend->name,
              op_traits(desc->kind)->name);
    if (desc->compute == DTYPE_TF32 && !kernel->tf32)
        RAISE(ERR_USAGE, "tf32 needs the tensor cores of a GPU; use --device cuda, or --precision fp32");
    ASSERT(kernel->fuses || !op_is_fused(desc));
    ASSERT(backend->stores_bf16 || !op_is_narrow(desc));
    op_t *op;
    TRY(mem_new(sizeof *op, "an operator", &op));
    *op = (op_t){.desc = *desc,
                 .backend = backend,
                 .training = training,
                 .reads_x = op_traits(desc->kind)->backward_needs_x,
                 .reads_y = op_traits(desc->kind)->backward_needs_y,
                 .adds_dx = kernel->accumulates,
                 .adds_dparam = kernel->accumulates};
    err_t err = ERR_OK;
    int n_passes = wanted ? training ? OP_PASS_COUNT : 1 : 0;
    for (int pass = 0; pass < n_passes && err == ERR_OK; pass++)
        err = want_algorithm(op, (op_pass_t)pass, wanted->name[pass]);
    if (err == ERR_OK && kernel->plan) err = kernel->plan(op);
    bool takes = kernel->bf16 && (kernel->mixes || op_is_all_narrow(desc));
    if (err == ERR_OK && op_is_narrow(desc) && !takes) narrow_plan(op);
    if (err != ERR_OK) {
        mem_free(&op);
        return err;
    }
    *out = op;
    return ERR_OK;
}

void op_free(op_t **op)
{
    if (!*op) return;
    const op_kernel_t *kernel = (*op)->backend->kernel[(*op)->desc.kind];
    if (kernel->unplan) kernel->unplan(*op);
    mem_free(op);
}

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

/* ---- Float32 copies ---- */
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

static err_t narrow_forward(const op_t *op, const op_args_t *args)
{
    const op_desc_t *d = &op->desc;
    op_args_t wide = *args;
    for (int i = 0; i < d->n_inputs; i++) TRY(widened(op, args, X + i, &args->x[i], true, &wide.x[i]));
    for (int i = 0; i < d->n_outputs; i++) TRY(widened(op, args, Y + i, &args->y[i], false, &wide.y[i]));
    TRY(op->backend->kernel[d->kind]->forward(op, &wide));
    for (int i = 0; i < d->n_outputs; i++) TRY(narrow_back(op, &args->y[i], &wide.y[i]));
    return ERR_OK;
}

static err_t narrow_backward(const op_t *op, const op_args_t *args)
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

/* ---- Running ---- */
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

static const op_kernel_t *kernel_of(const op_t *op)
{
    return op->backend->kernel[op->desc.kind];
}

/* The kernel's copies of gradients (narrow_plan) are not sums. */
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
    check(args->dy, d->n_outputs, d->y, d->y_dtype);
    check(args->dx, d->n_inputs, d->x, d->x_dtype);
    check(args->dparam, d->n_params, d->param, NULL);
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

/* ---- The least work of a call ---- */
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
