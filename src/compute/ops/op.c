#include "compute/ops/op.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "compute/ops/backend.h"
#include "compute/ops/infer.h"
#include "compute/ops/narrow.h"

static const struct {
    op_traits_t traits;
    int n_inputs;
    err_t (*infer)(op_desc_t *desc);
} ops[OP_KIND_COUNT] = {
    [OP_CONV2D] = {{"conv2d", true, false, false, false}, 1, infer_conv2d},
    [OP_LINEAR] = {{"linear", true, false, false, false}, 1, infer_linear},
    [OP_POOL2D] = {{"pool2d", false, false, false, false}, 1, infer_pool2d},
    [OP_RELU] = {{"relu", false, true, true, false}, 1, infer_same},
    [OP_DROPOUT] = {{"dropout", false, false, true, false}, 1, infer_dropout},
    [OP_ADD] = {{"add", false, false, true, false}, 2, infer_add},
    [OP_BATCH_NORM] = {{"batch_norm", true, false, true, false}, 1, infer_batch_norm},
    [OP_SOFTMAX_XENT] = {{"softmax_xent", false, false, false, true}, 1, infer_softmax_xent},
    [OP_SIGMOID_BCE] = {{"sigmoid_bce", true, false, false, true}, 1, infer_sigmoid_bce},
};

const op_traits_t *op_traits(op_kind_t kind)
{
    ASSERT(kind < OP_KIND_COUNT);
    return &ops[kind].traits;
}

/* The input that batch norm adds has come by fusing. */
static bool adds_input(const op_desc_t *desc)
{
    return desc->kind == OP_BATCH_NORM && desc->n_inputs == 2;
}

static bool may_store(dtype_t dtype)
{
    return dtype == DTYPE_F32 || dtype == DTYPE_BF16;
}

err_t op_infer(op_desc_t *desc)
{
    ASSERT(desc->kind < OP_KIND_COUNT && (desc->n_inputs == ops[desc->kind].n_inputs || adds_input(desc)));
    if (desc->dtype != DTYPE_F32)
        RAISE(ERR_USAGE, "%s: %s is not supported; operators compute in float32", ops[desc->kind].traits.name,
              dtype_name(desc->dtype));
    bool multiplies = desc->kind == OP_CONV2D || desc->kind == OP_LINEAR;
    bool narrow = desc->compute == DTYPE_TF32 || desc->compute == DTYPE_BF16;
    if (desc->compute != DTYPE_F32 && !(multiplies && narrow))
        RAISE(ERR_USAGE,
              "%s: products in %s are not supported; conv2d and linear have float32, tfloat32 and bfloat16",
              ops[desc->kind].traits.name, dtype_name(desc->compute));
    for (int i = 0; i < desc->n_inputs; i++) ASSERT(may_store(desc->x_dtype[i]));
    ASSERT(may_store(desc->y_dtype));
    for (int i = 0; i < desc->n_inputs; i++)
        for (int d = 0; d < desc->x[i].n_dims; d++)
            if (desc->x[i].dim[d] < 1)
                RAISE(ERR_USAGE, "%s: the input %s has an empty dimension", ops[desc->kind].traits.name,
                      shape_format(desc->x[i]).text);
    desc->n_params = desc->n_states = 0;
    return ops[desc->kind].infer(desc);
}

bool op_is_narrow(const op_desc_t *desc)
{
    bool narrow = desc->y_dtype == DTYPE_BF16;
    for (int i = 0; i < desc->n_inputs; i++) narrow |= desc->x_dtype[i] == DTYPE_BF16;
    return narrow;
}

int64_t op_macs(const op_desc_t *desc)
{
    if (desc->kind == OP_CONV2D) {
        int64_t height, width;
        op_conv2d_cells(desc, &height, &width);
        return desc->y.dim[0] * height * width * shape_count(desc->param[0]);
    }
    if (desc->kind == OP_LINEAR) return desc->y.dim[0] * shape_count(desc->param[0]);
    return 0;
}

epilogue_t op_epilogue(const op_desc_t *desc)
{
    if (desc->kind == OP_CONV2D) return desc->attr.conv2d.epilogue;
    if (desc->kind == OP_LINEAR) return desc->attr.linear.epilogue;
    if (desc->kind == OP_BATCH_NORM) return desc->attr.batch_norm.epilogue;
    return (epilogue_t){0};
}

const char *const op_pass_names[OP_PASS_COUNT] = {"forward", "backward_data", "backward_weights"};

void op_key(const op_desc_t *desc, char out[OP_KEY_MAX])
{
    const conv2d_attr_t *a = &desc->attr.conv2d;
    const int64_t *x = desc->x[0].dim;
    int n = snprintf(out, OP_KEY_MAX, "%s %s n=%" PRId64, ops[desc->kind].traits.name,
                     dtype_name(desc->compute), x[0]);
    char *rest = out + n;
    size_t room = (size_t)(OP_KEY_MAX - n);
    if (desc->kind == OP_CONV2D)
        n = snprintf(rest, room,
                     " x=%" PRId64 "x%" PRId64 "x%" PRId64 " k=%" PRId64
                     "x%dx%d stride=%dx%d pad=%dx%d dilation=%dx%d groups=%d",
                     x[1], x[2], x[3], a->out_channels, a->kernel_h, a->kernel_w, a->stride_h, a->stride_w,
                     a->pad_h, a->pad_w, a->dilation_h, a->dilation_w, a->groups);
    else if (desc->kind == OP_LINEAR)
        n = snprintf(rest, room, " in=%" PRId64 " out=%" PRId64, shape_sample_count(desc->x[0]),
                     desc->attr.linear.out_features);
    else
        n = snprintf(rest, room, " x=%s", shape_format(shape_with_batch(desc->x[0], 1)).text);
    ASSERT((size_t)n < room);
    epilogue_t e = op_epilogue(desc);
    rest += n;
    room -= (size_t)n;
    if (e.relu)
        n = snprintf(rest, room, e.pool_h ? " epilogue=relu+pool%dx%d" : " epilogue=relu", e.pool_h,
                     e.pool_w);
    else
        n = 0;
    ASSERT((size_t)n < room);
    bool x_narrow = desc->x_dtype[0] == DTYPE_BF16, y_narrow = desc->y_dtype == DTYPE_BF16;
    if (x_narrow || y_narrow)
        n = snprintf(rest + n, room - (size_t)n, " narrow=%s%s", x_narrow ? "x" : "", y_narrow ? "y" : "");
    ASSERT((size_t)n < room);
}

int op_list_algorithms(const backend_t *backend, const op_desc_t *desc, op_pass_t pass, bool training,
                       const char **names, int max)
{
    const op_kernel_t *kernel = backend->kernel[desc->kind];
    return kernel && kernel->list ? kernel->list(desc, pass, training, names, max) : 0;
}

/* Takes over the name that is wanted for one pass, if this backend has it. */
static err_t want_algorithm(op_t *op, op_pass_t pass, const char *wanted)
{
    const char *names[OP_MAX_ALGORITHMS];
    char key[OP_KEY_MAX], choice[256] = "";
    if (!wanted[0]) return ERR_OK;
    int n = op_list_algorithms(op->backend, &op->desc, pass, op->training, names, OP_MAX_ALGORITHMS);
    for (int i = 0; i < n; i++) {
        if (strcmp(names[i], wanted) == 0) {
            snprintf(op->algorithms.name[pass], OP_ALGORITHM_MAX, "%s", wanted);
            return ERR_OK;
        }
        size_t used = strlen(choice);
        snprintf(choice + used, sizeof choice - used, "%s%s", used ? ", " : "", names[i]);
    }
    op_key(&op->desc, key);
    if (n == 0)
        RAISE(ERR_USAGE, "%s, %s: the %s backend has no choice of algorithms, '%s' was asked for", key,
              op_pass_names[pass], op->backend->name, wanted);
    RAISE(ERR_USAGE, "%s, %s: there is no algorithm '%s' for it; choose from %s", key, op_pass_names[pass],
          wanted, choice);
}

err_t op_plan(const backend_t *backend, const op_desc_t *desc, bool training, const op_algorithms_t *wanted,
              op_t **out)
{
    const op_kernel_t *kernel = backend->kernel[desc->kind];
    if (!kernel) RAISE(ERR_SYSTEM, "the %s backend has no %s", backend->name, ops[desc->kind].traits.name);
    if (desc->compute == DTYPE_TF32 && !kernel->tf32)
        RAISE(ERR_USAGE, "tf32 is a format of GPUs' tensor cores; use --device cuda, or --precision fp32");
    ASSERT(kernel->fuses || !(op_epilogue(desc).relu || adds_input(desc)));
    ASSERT(backend->stores_bf16 || !op_is_narrow(desc));
    op_t *op;
    TRY(mem_new(sizeof *op, "an operator", &op));
    *op = (op_t){.desc = *desc, .backend = backend, .training = training};
    err_t err = ERR_OK;
    int n_passes = wanted ? training ? OP_PASS_COUNT : 1 : 0;
    for (int pass = 0; pass < n_passes && err == ERR_OK; pass++)
        err = want_algorithm(op, (op_pass_t)pass, wanted->name[pass]);
    if (err == ERR_OK && kernel->plan) err = kernel->plan(op);
    if (err == ERR_OK && !kernel->bf16 && op_is_narrow(desc)) narrow_plan(op);
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

err_t op_forward(const op_t *op, const op_args_t *args)
{
    if (op->converts) return narrow_forward(op, args);
    return op->backend->kernel[op->desc.kind]->forward(op, args);
}

err_t op_backward(const op_t *op, const op_args_t *args)
{
    ASSERT(op->training);
    if (op->converts) return narrow_backward(op, args);
    return op->backend->kernel[op->desc.kind]->backward(op, args);
}
