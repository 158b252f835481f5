/* SPDX-License-Identifier: MIT */
/* Plans and launches dropout; the mask has a bit per element, and its random words are those of the CPU
 * backends. */
#include <stddef.h>

#include "kernels/cuda/cuda.h"
#include "kernels/cuda/kernels.h"

/* Saved: one byte per four neighbours that share a block of random words; bit k is set if neighbour k is
 * kept. */
static dropout_t dropout_of(const op_t *op)
{
    double keep = 1 - op->desc.attr.dropout.rate;
    return (dropout_t){.n_samples = op->desc.y.dim[0],
                       .n_sample = shape_sample_count(op->desc.y),
                       .threshold = (uint64_t)(keep * 4294967296.0), /* 2^32 at rate 0 */
                       .scale = (float)(1 / keep)};
}

static size_t mask_bytes(const op_t *op)
{
    return (size_t)(op->desc.y.dim[0] * ((shape_sample_count(op->desc.y) + 3) / 4));
}

static err_t cuda_dropout_plan(op_t *op)
{
    op->n_saved_bytes = op->training ? mask_bytes(op) : 0;
    return ERR_OK;
}

/* Evaluation: y = x, and the mask keeps everything, in case backward is called. */
static err_t forward_identity(const op_t *op, const op_args_t *args)
{
    size_t n_bytes = (size_t)shape_count(op->desc.y) * sizeof(float);
    if (args->y != args->x[0]) TRY(cuda_memory.copy(args->y, args->x[0], n_bytes));
    if (op->n_saved_bytes)
        E_CUDA(cudaMemsetAsync(args->saved, 0xf, mask_bytes(op), cuda_stream()), "dropout in evaluation");
    return ERR_OK;
}

static err_t cuda_dropout_forward(const op_t *op, const op_args_t *args)
{
    if (!args->training) return forward_identity(op, args);
    dropout_t d = dropout_of(op);
    d.key = args->dropout_key;
    d.layer = args->layer;
    d.step = (step_u64_t){args->step, cuda_recorded(offsetof(backend_step_t, step))};
    d.first_sample = (step_u64_t){args->first_sample, cuda_recorded(offsetof(backend_step_t, first_sample))};
    uint8_t *saved = op->n_saved_bytes ? args->saved : NULL;
    E_CUDA(dropout_forward(&d, args->x[0], args->y, saved, cuda_stream()), "dropout");
    return ERR_OK;
}

static err_t cuda_dropout_backward(const op_t *op, const op_args_t *args)
{
    if (!args->dx[0]) return ERR_OK;
    dropout_t d = dropout_of(op);
    E_CUDA(dropout_backward(&d, args->dy, args->saved, args->dx[0], cuda_stream()), "dropout, backward");
    return ERR_OK;
}

const op_kernel_t cuda_dropout = {
    .plan = cuda_dropout_plan, .forward = cuda_dropout_forward, .backward = cuda_dropout_backward};
