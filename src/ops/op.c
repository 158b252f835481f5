#include "ops/op.h"

#include "base/mem.h"
#include "ops/backend.h"
#include "ops/infer.h"

static const struct {
    op_traits_t traits;
    int n_inputs;
    err_t (*infer)(op_desc_t *desc);
} ops[OP_KIND_COUNT] = {
    [OP_CONV2D] = {{"conv2d", true, false, false}, 1, infer_conv2d},
    [OP_LINEAR] = {{"linear", true, false, false}, 1, infer_linear},
    [OP_POOL2D] = {{"pool2d", false, false, false}, 1, infer_pool2d},
    [OP_RELU] = {{"relu", false, true, true}, 1, infer_same},
    [OP_DROPOUT] = {{"dropout", false, false, true}, 1, infer_dropout},
    [OP_ADD] = {{"add", false, false, false}, 2, infer_add},
    [OP_BATCH_NORM] = {{"batch_norm", true, false, false}, 1, infer_batch_norm},
    [OP_SOFTMAX_XENT] = {{"softmax_xent", false, false, false}, 1, infer_softmax_xent},
};

const op_traits_t *op_traits(op_kind_t kind)
{
    ASSERT(kind < OP_KIND_COUNT);
    return &ops[kind].traits;
}

err_t op_infer(op_desc_t *desc)
{
    ASSERT(desc->kind < OP_KIND_COUNT && desc->n_inputs == ops[desc->kind].n_inputs);
    if (desc->dtype != DTYPE_F32)
        RAISE(ERR_USAGE, "%s: %s is not supported; operators compute in float32", ops[desc->kind].traits.name,
              dtype_name(desc->dtype));
    for (int i = 0; i < desc->n_inputs; i++)
        for (int d = 0; d < desc->x[i].n_dims; d++)
            if (desc->x[i].dim[d] < 1)
                RAISE(ERR_USAGE, "%s: the input %s has an empty dimension", ops[desc->kind].traits.name,
                      shape_format(desc->x[i]).text);
    desc->n_params = desc->n_states = 0;
    return ops[desc->kind].infer(desc);
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
    return (epilogue_t){0};
}

err_t op_plan(const backend_t *backend, const op_desc_t *desc, bool training, op_t **out)
{
    const op_kernel_t *kernel = backend->kernel[desc->kind];
    if (!kernel) RAISE(ERR_SYSTEM, "the %s backend has no %s", backend->name, ops[desc->kind].traits.name);
    ASSERT(kernel->fuses || !op_epilogue(desc).relu);
    op_t *op;
    TRY(mem_new(sizeof *op, "an operator", &op));
    *op = (op_t){.desc = *desc, .backend = backend, .training = training};
    err_t err = kernel->plan ? kernel->plan(op) : ERR_OK;
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
    return op->backend->kernel[op->desc.kind]->forward(op, args);
}

err_t op_backward(const op_t *op, const op_args_t *args)
{
    ASSERT(op->training);
    return op->backend->kernel[op->desc.kind]->backward(op, args);
}
