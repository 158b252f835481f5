/* SPDX-License-Identifier: MIT */
/* Optimizers: options, flat state buffers, and one step over all parameters, or over this rank's where they are shared out.
 * compute/ops/optim_args.h (optim_args_t) has the formulas. Not collective, unless stated otherwise: every rank applies the
 * same summed gradients. */
#ifndef TRAIN_LEARN_OPTIM_H
#define TRAIN_LEARN_OPTIM_H

#include "cluster/comm/buffer.h"
#include "compute/graph/graph.h"
#include "compute/ops/hd_buffer.h"
#include "text/opt.h"

typedef struct optim_options {
    const char *optimizer; /* "sgd", "nesterov", "adadelta", "adamw", "lars" */
    double momentum, rho, beta1, beta2;
    double epsilon; /* 0: the optimizer's default */
    double weight_decay, lars_trust;
    bool decay_all;   /* weight decay of all parameters */
    double clip_norm; /* 0: no clipping */
    double ema;       /* decay of the weight average; 0: none */
    bool shard;       /* share parameters out among the ranks */
} optim_options_t;

extern const opt_t optim_option_table[];
extern const int n_optim_options;

/* After parsing: checks that the option table's ranges cannot express. ERR_USAGE. */
err_t optim_options_check(const optim_options_t *options);

/* The learning rate of a run without --lr. */
double optim_default_rate(const char *optimizer);

enum { OPTIM_MAX_BUFFERS = OPTIM_MAX_STATES + 1 };

/* One flat state buffer, laid out like the graph's trained parameters, of which it holds this rank's pieces one after
 * another; checkpoints store it under this name. */
typedef struct optim_buffer {
    const char *name; /* "velocity", "square_average", "first_moment", "ema", … */
    hd_buffer_t flat; /* n_own floats, initially 0 */
} optim_buffer_t;

/* What this rank updates: parameters [first, first + n), whose state is at `at` in the buffers. */
typedef struct optim_piece {
    int64_t first, n, at;
    const optim_span_t *spans; /* on a device, in its memory: the ranges in it */
    int n_spans, first_range;
} optim_piece_t;

typedef struct optim_range optim_range_t;

typedef struct optim {
    optim_kind_t kind;
    int n_buffers, n_states;
    optim_buffer_t buffers[OPTIM_MAX_BUFFERS]; /* n_states of the kernel's, then the average, if any */
    optim_buffer_t *average;                   /* points into buffers, or NULL */
    double gradient_norm;  /* of the last finished step, before clipping; NaN without clipping and LARS */
    double gradient_scale; /* of that step; below 1 if it was clipped */
    optim_options_t options;
    const backend_t *backend;
    comm_t *comm;         /* where parameters are shared out; or NULL */
    comm_slices_t slices; /* the same; size 0: this rank updates all */
    int64_t n_own;        /* floats in the pieces */
    int64_t n_pieces;
    optim_piece_t *pieces; /* ascending */
    int n_ranges;
    optim_range_t *ranges; /* consecutive parameters in the flat buffer that are updated alike */
    hd_buffer_t spans;     /* on a device: the ranges within each piece, if there are several ranges */
    /* With clipping or LARS: optim_norms_t's cells, those of other ranks empty, groups, which are the ranges, and squares. Cells do
     * not depend on how parameters are shared out, nor do the norms. */
    hd_buffer_t cells, groups, squares;
    int64_t n_cells, n_squared, grain; /* elements in the cells; in the longest, at most */
    /* On a device: optim_norms_t.out. The host side has norm and scale of the steps in flight:
     * [BACKEND_SLOTS][OPTIM_RATIO]. */
    hd_buffer_t norms;
    float *halted; /* optim_args_t's; NULL on host backends */
} optim_t;

/* Parameters are shared out in multiples of so many floats. */
int64_t optim_grain(int64_t n_flat_trained);

/* Bytes of state of a rank that updates n of the parameters. */
int64_t optim_state_bytes(const optim_t *optim, int64_t n);

/* Weight decay (without decay_all) and LARS's trust ratio apply to parameters of more than one dimension only: not to
 * biases, nor to the scales and shifts of normalization (He et al. 2019, "Bag of tricks", section 3.1).
 *
 *   comm    NULL: this rank updates all parameters. Otherwise each rank has state of its slices alone and updates these;
 *           gradients of others are not read. Borrowed
 *   slices  of the trained parameters, with optim_grain; not read without comm
 *
 * ERR_USAGE if there are more ranks than slices. */
err_t optim_new(const optim_options_t *options, const graph_t *graph, const backend_t *backend, comm_t *comm,
                const comm_slices_t *slices, optim_t **out);
void optim_free(optim_t **optim);

/* Inputs of a step. Weights and gradients are graph_t's flat buffers in the backend's memory, with zeros in
 * the padding between parameters. */
typedef struct optim_step {
    float *weights;
    const float *gradients;
    double lr;
    int64_t step;       /* from 0 */
    const float *guard; /* optim_args_t's */
} optim_step_t;

/* One optimizer step, with clipping or LARS Collective where parameters are shared out. Allocates nothing; waits for a
 * device only to sum norms that the communicator sums in host memory, so that it can be recorded otherwise.
 *
 * Clipping: g ← g · clip_norm/‖g‖ if ‖g‖ over all parameters exceeds clip_norm (Pascanu et al. 2013). With
 * clipping or LARS, a norm that is not finite changes nothing.
 *
 * LARS: the trust ratio of a parameter is lars_trust·‖w‖ / (‖g‖ + λ‖w‖ + ε), with g after clipping; 1 if ‖w‖
 * or ‖g‖ is 0.
 *
 * Weight average: ema ← d·ema + (1−d)·w after the update, with d = min(ema, (1+step)/(10+step)) as in
 * TensorFlow's ExponentialMovingAverage with num_updates, and d = 0 at step 0 to discard the initial
 * weights. */
err_t optim_step(optim_t *optim, const optim_step_t *step);

/* After waiting for optim_step of this step number: takes the norm and the scale of the step. On a device, up to
 * BACKEND_SLOTS steps may be begun before. ERR_GATE if the norm is not finite; ranks with the same gradients all
 * return it. */
err_t optim_finish(optim_t *optim, int64_t step);

/* The values of a step that change between launches of a recorded step. */
void optim_step_values(const optim_t *optim, const optim_step_t *step, backend_step_t *values);

/* Swaps weights and average of this rank's pieces, to evaluate the average; a second call swaps them back. Does nothing
 * without an average. */
err_t optim_swap_average(optim_t *optim, float *weights);

/* The state of parameter `at`, which is in a piece of this rank, on the host side; that of the rest of the piece
 * follows. */
float *optim_state_at(const optim_t *optim, int buffer, int64_t at);

/* Copies all buffers from the device to the host side (pull; waits) or back (push). */
err_t optim_pull(const optim_t *optim);
err_t optim_push(const optim_t *optim);

#endif
