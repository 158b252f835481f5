/* SPDX-License-Identifier: MIT */
/* Plans and launches dropout; the mask has a bit per element, and its random words are those of the CPU
 * backends. */
#include <stddef.h>

#include "kernels/cuda/cuda.h"
#include "kernels/cuda/kernels.h"

/* Saved: one byte per four neighbours that share a block of random words; bit k is set if neighbour k is
 * kept. */
static dropout_t dropout_of(const op_t *op, bool narrow)
{
    double keep = 1 - op->desc.attr.dropout.rate;
    return (dropout_t){.n_samples = op->desc.y[0].dim[0],
                       .n_sample = shape_sample_count(op->desc.y[0]),
                       .threshold = (uint64_t)(keep * 4294967296.0), /* 2^32 at rate 0 */
                       .scale = (float)(1 / keep),
                       .narrow = narrow};
}

static size_t mask_bytes(const op_t *op)
{
    return (size_t)(op->desc.y[0].dim[0] * ((shape_sample_count(op->desc.y[0]) + 3) / 4));
}

static err_t cuda_dropout_plan(op_t *op)
{
    op->n_saved_bytes = op->training ? mask_bytes(op) : 0;
    return ERR_OK;
}

/* Evaluation: y = x, and the mask keeps everything, in case backward is called. */
static err_t forward_identity(const op_t *op, const op_args_t *args)
{
    size_t n_bytes = (size_t)shape_count(op->desc.y[0]) * dtype_size(args->y[0].dtype);
    if (args->y[0].data != args->x[0].data) TRY(cuda_memory.copy(args->y[0].data, args->x[0].data, n_bytes));
    if (op->n_saved_bytes)
        E_CUDA(cudaMemsetAsync(args->saved, 0xf, mask_bytes(op), cuda_stream()), "dropout in evaluation");
    return ERR_OK;
}

static err_t cuda_dropout_forward(const op_t *op, const op_args_t *args)
{
    if (!args->training) return forward_identity(op, args);
    dropout_t d = dropout_of(op, args->y[0].dtype == DTYPE_BF16);
    d.key = args->dropout.key;
    d.layer = args->dropout.layer;
    d.step = (step_u64_t){args->dropout.step, cuda_recorded(offsetof(backend_step_t, step))};
    d.first_sample =
        (step_u64_t){args->dropout.first_sample, cuda_recorded(offsetof(backend_step_t, first_sample))};
    uint8_t *saved = op->n_saved_bytes ? args->saved : NULL;
    E_CUDA(dropout_forward(&d, args->x[0].data, args->y[0].data, saved, cuda_stream()), "dropout");
    return ERR_OK;
}

static err_t cuda_dropout_backward(const op_t *op, const op_args_t *args)
{
    if (!args->dx[0].data) return ERR_OK;
    dropout_t d = dropout_of(op, args->dy[0].dtype == DTYPE_BF16);
    E_CUDA(dropout_backward(&d, args->dy[0].data, args->saved, args->dx[0].data, cuda_stream()),
           "dropout, backward");
    return ERR_OK;
}

const op_kernel_t cuda_dropout = {.plan = cuda_dropout_plan,
                                  .forward = cuda_dropout_forward,
                                  .backward = cuda_dropout_backward,
                                  .bf16 = true};
