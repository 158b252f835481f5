/* SPDX-License-Identifier: MIT */
/* Binds the optimizers to the backend table: passes each value that changes between steps directly or, in a
 * recorded step, by its address. */
#include "kernels/cuda/cuda.h"
#include "kernels/cuda/kernels_step.h"

#define STEP(field)                                                                                          \
    {                                                                                                        \
        args->field, cuda_recorded(offsetof(backend_step_t, field))                                          \
    }

static err_t optim_run(const optim_args_t *args, cudaError_t (*launcher)(const optim_range_t *, cudaStream_t),
                       const char *what)
{
    const optim_range_t range = {
        .weight = args->weight,
        .gradient = args->gradient,
        .state = {args->state[0], args->state[1]},
        .average = args->average,
        .n = args->n,
        .spans = args->spans,
        .n_spans = args->n_spans,
        .lr = STEP(lr),
        .gradient_scale = {args->gradient_scale, args->scale_at},
        .average_decay = STEP(average_decay),
        .correction = {STEP(correction[0]), STEP(correction[1])},
        .weight_decay = args->weight_decay,
        .momentum = args->momentum,
        .rho = args->rho,
        .beta = {args->beta[0], args->beta[1]},
        .epsilon = args->epsilon,
        .trust_ratio = {args->trust_ratio, args->ratio_at},
        .nesterov = args->nesterov,
        .guard = args->guard,
        .halted = args->halted,
    };
    E_CUDA(launcher(&range, cuda_stream()), what);
    return ERR_OK;
}

err_t cuda_optim_sgd(const optim_args_t *args)
{
    return optim_run(args, optim_sgd, "sgd");
}

err_t cuda_optim_adadelta(const optim_args_t *args)
{
    return optim_run(args, optim_adadelta, "adadelta");
}

err_t cuda_optim_adamw(const optim_args_t *args)
{
    return optim_run(args, optim_adamw, "adamw");
}

err_t cuda_optim_lars(const optim_args_t *args)
{
    return optim_run(args, optim_lars, "lars");
}
