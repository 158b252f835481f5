/* SPDX-License-Identifier: MIT */
/* Reference dropout: defines which random word belongs to which element. */
#include "base/rng.h"
#include "kernels/ref/ref.h"

/* Saved: one byte per element, 1 if it is kept. */
static err_t ref_dropout_plan(op_t *op)
{
    op->n_saved_bytes = op->training ? (size_t)shape_count(op->desc.y[0]) : 0;
    return ERR_OK;
}

static bool is_kept(const op_t *op, const op_args_t *args, int64_t n, int64_t i)
{
    uint64_t threshold = (uint64_t)((1 - op->desc.attr.dropout.rate) * 4294967296.0);
    rng_block_t block = rng_dropout_block(args->dropout.key, args->dropout.layer, args->dropout.step,
                                          args->dropout.first_sample + (uint64_t)n, (uint32_t)(i / 4));
    return block.word[i % 4] < threshold;
}

static float scale_of(const op_t *op)
{
    return (float)(1 / (1 - op->desc.attr.dropout.rate));
}

static err_t ref_dropout_forward(const op_t *op, const op_args_t *args)
{
    int64_t count = shape_count(op->desc.y[0]);
    int64_t n_sample = shape_sample_count(op->desc.y[0]);
    const float *x = args->x[0].data;
    float *y = args->y[0].data, scale = scale_of(op);
    uint8_t *saved = op->n_saved_bytes ? args->saved : NULL;
    for (int64_t i = 0; i < count; i++) {
        bool keep = !args->training || is_kept(op, args, i / n_sample, i % n_sample);
        y[i] = !args->training ? x[i] : keep ? x[i] * scale : 0;
        if (saved) saved[i] = keep;
    }
    return ERR_OK;
}

static err_t ref_dropout_backward(const op_t *op, const op_args_t *args)
{
    int64_t count = shape_count(op->desc.y[0]);
    const float *dy = args->dy[0].data;
    const uint8_t *saved = args->saved;
    float *dx = args->dx[0].data, scale = scale_of(op);
    for (int64_t i = 0; i < count && dx; i++) dx[i] = saved[i] ? dy[i] * scale : 0;
    return ERR_OK;
}

const op_kernel_t ref_dropout = {
    .plan = ref_dropout_plan, .forward = ref_dropout_forward, .backward = ref_dropout_backward};
