/* SPDX-License-Identifier: MIT */
/* Binds the softmax cross-entropy to the operator table; forward saves what backward only scales. */
#include <stddef.h>

#include "kernels/cuda/cuda.h"
#include "kernels/cuda/kernels.h"

/* Saved: w · (softmax(x) − t), [n, classes]; backward only scales it. */
static err_t cuda_softmax_xent_plan(op_t *op)
{
    op->n_saved_bytes = op->training ? (size_t)shape_count(op->desc.x[0]) * sizeof(float) : 0;
    return ERR_OK;
}

static err_t cuda_softmax_xent_forward(const op_t *op, const op_args_t *args)
{
    softmax_t s = {.n = op_rows(op, args),
                   .n_class = op->desc.x[0].dim[1],
                   .smoothing = op->desc.attr.softmax_xent.label_smoothing,
                   .x = args->x[0].data,
                   .labels = args->x[1].data,
                   .weights = op->desc.n_inputs > 2 ? args->x[2].data : NULL,
                   .loss = args->y[0].data,
                   .predictions = args->y[1].data,
                   .saved = op->n_saved_bytes ? args->saved : NULL};
    E_CUDA(softmax_xent_forward(&s, cuda_stream()), "softmax cross-entropy");
    return ERR_OK;
}

static err_t cuda_softmax_xent_backward(const op_t *op, const op_args_t *args)
{
    if (!args->dx[0].data) return ERR_OK;
    step_f32_t scale = {args->loss.scale, cuda_recorded(offsetof(backend_step_t, loss_scale))};
    E_CUDA(softmax_xent_backward(args->saved, scale, args->loss.weight, args->dx[0].data,
                                 op_rows(op, args) * op->desc.x[0].dim[1], cuda_stream()),
           "softmax cross-entropy, backward");
    return ERR_OK;
}

const op_kernel_t cuda_softmax_xent = {.plan = cuda_softmax_xent_plan,
                                       .forward = cuda_softmax_xent_forward,
                                       .backward = cuda_softmax_xent_backward};
