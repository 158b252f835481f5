/* SPDX-License-Identifier: MIT */
/* Optimizers: options, the flat buffers of state, and one step over all parameters. What each computes is
 * said in compute/ops/backend.h (optim_args_t). Not collective: every rank does the same to the same summed
 * gradients. */
#ifndef TRAIN_LEARN_OPTIM_H
#define TRAIN_LEARN_OPTIM_H

#include "base/opt.h"
#include "compute/graph/graph.h"
#include "compute/ops/hd_buffer.h"

typedef struct optim_options {
    const char *optimizer; /* "sgd", "nesterov", "adadelta", "adamw", "lars" */
    double momentum, rho, beta1, beta2;
    double epsilon; /* 0: the optimizer's own default */
    double weight_decay, lars_trust;
    double clip_norm; /* 0: no clipping */
    double ema;       /* 0: no average */
} optim_options_t;

extern const opt_t optim_option_table[];
extern const int n_optim_options;

/* After parsing: what the table's ranges can't say. ERR_USAGE. */
err_t optim_options_check(const optim_options_t *options);

/* The optimizer's customary learning rate, for a run that names none. */
double optim_default_rate(const char *optimizer);

enum { OPTIM_MAX_BUFFERS = OPTIM_MAX_STATES + 1 };

/* One flat buffer laid out as the graph's parameters are; belongs in a checkpoint under this name. */
typedef struct optim_buffer {
    const char *name; /* "velocity", "square_average", "first_moment", "ema", … */
    hd_buffer_t flat; /* n_flat_params floats, zero at the start */
} optim_buffer_t;

typedef struct optim_range optim_range_t;

typedef struct optim {
    optim_kind_t kind;
    int n_buffers, n_states;
    optim_buffer_t buffers[OPTIM_MAX_BUFFERS]; /* n_states of the kernel's, then the average if one is kept */
    optim_buffer_t *average;                   /* the average's buffer, or NULL */
    double gradient_norm;  /* of the last step, before clipping; NaN when nothing needed it */
    double gradient_scale; /* of the last step: below 1 where it was clipped */
    optim_options_t options;
    const backend_t *backend;
    int64_t n_flat;
    int n_ranges;
    optim_range_t *ranges; /* neighbours in the flat buffer that are treated alike */
} optim_t;

/* Weight decay and LARS's trust ratio are for parameters of more than one dimension: not for biases, nor for
 * normalisation's scales and shifts (He et al. 2019, "Bag of tricks", section 3.1). */
err_t optim_new(const optim_options_t *options, const graph_t *graph, const backend_t *backend,
                optim_t **out);
void optim_free(optim_t **optim);

/* What a step takes from the outside. The flat buffers are graph_t's, where the backend computes, with zeros in
 * the padding between parameters. */
typedef struct optim_step {
    float *weights;
    const float *gradients;
    double lr;
    int64_t step;       /* from 0 */
    const float *guard; /* optim_args_t's */
} optim_step_t;

/* One optimizer step. Allocates nothing, and waits only where norms are needed (optim_needs_norms).
 *
 * Clipping: g ← g · clip_norm/‖g‖ where ‖g‖ over all parameters is above clip_norm (Pascanu et al. 2013). A
 * norm that is not finite is ERR_GATE and leaves everything as it was; ranks with the same gradients all get
 * it.
 *
 * LARS: each parameter's trust ratio is lars_trust·‖w‖ / (‖g‖ + λ‖w‖ + ε), g after clipping; 1 where ‖w‖ or
 * ‖g‖ is 0.
 *
 * Average of the weights: ema ← d·ema + (1−d)·w after the update. d = min(ema, (1+step)/(10+step)) as
 * TensorFlow's ExponentialMovingAverage with num_updates, and 0 at step 0: the initial weights have no part.
 */
err_t optim_step(optim_t *optim, const optim_step_t *step);

/* Whether a step needs norms of gradients: with clipping and LARS. */
bool optim_needs_norms(const optim_t *optim);

/* The numbers of a step that a recorded one is given anew. */
void optim_step_values(const optim_t *optim, const optim_step_t *step, backend_step_t *values);

/* Exchanges weights and average, and a second call puts them back: to evaluate or save the average. Nothing
 * without one. */
err_t optim_swap_average(optim_t *optim, float *weights);

/* All buffers, from where the backend computes to the host's side, and back. Pulling waits. */
err_t optim_pull(const optim_t *optim);
err_t optim_push(const optim_t *optim);

#endif
