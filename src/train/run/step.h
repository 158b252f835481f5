/* SPDX-License-Identifier: MIT */
/* One training step. Part of train. */
#ifndef TRAIN_RUN_STEP_H
#define TRAIN_RUN_STEP_H

#include "train/run/trainer.h"

/* What one step cost: seconds by what they were spent on, blocks allocated, pages touched for the first time.
 */
typedef struct step_cost {
    double data, forward, backward, comm, optimizer, total;
    double cpu; /* of all threads of this process */
    int64_t n_allocations, n_page_faults;
} step_cost_t;

typedef struct step_result {
    double loss; /* mean over the global batch */
    int64_t n_correct, n;
    bool checkpoint_due, stop, failed;
    bool bad_found; /* a rank has bad images to tell of */
} step_result_t;

/* Learning rate of the next step. */
double trainer_rate(const trainer_t *t);

/* Collective. The next step: t->at is not moved on. ERR_GATE naming step and layer when the loss is not
 * finite. */
err_t trainer_step(trainer_t *t, step_result_t *result, step_cost_t *cost);

/* The rest is for step.c and step_passes.c alone: forward and backward of this rank's part, and what is read and
 * marked on the way. */

/* Behind the gradients; the host's side. */
static inline float *step_tail(const trainer_t *t)
{
    return (float *)t->grads.host + t->graph->n_flat_params;
}

static inline float *step_device_tail(const trainer_t *t)
{
    return (float *)t->grads.device + t->graph->n_flat_params;
}

static inline bool step_on_device(const trainer_t *t)
{
    return t->runtime.backend->memory != NULL;
}

static inline size_t step_tail_offset(const trainer_t *t)
{
    return (size_t)t->graph->n_flat_params * sizeof(float);
}

/* A sum begins; the requests go with it. */
err_t step_push_tail(const trainer_t *t);

/* A span of the trace. */
void step_trace(const trainer_t *t, const char *name, double start, double end, int64_t n_bytes);

/* The ends of a step's parts: on the host times of its clock, on a GPU marks among its work, which can be
 * read when it has been waited for. */
enum { MARK_BEGIN, MARK_FORWARD, MARK_BACKWARD, MARK_COMM, MARK_UPDATE };
err_t step_note(const trainer_t *t, int mark, double *when);

/* On a GPU: the time between two marks, and its span in the trace when mark `last` was at `end`. */
err_t step_read_marks(const trainer_t *t, int from, int to, int last, double end, const char *name,
                      double *sec);

/* --burn: wastes time in a phase that n of this rank's samples went through. */
void step_slowdown(trainer_t *t, const char *phase, int64_t n);

/* Whether forward and backward run several times a step. */
bool step_has_parts(const trainer_t *t);

/* The gradients of this rank's part of a global batch of n_global samples, into the gradient buffer and its
 * tail, or with --reproducible those of each shard into t->shards. */
err_t step_compute(trainer_t *t, const exec_batch_t *batch, int64_t n_global, step_cost_t *cost);

/* Collective. ERR_GATE: which layer is to blame; every rank looks, the lowest that finds something speaks. */
err_t step_report_nonfinite(trainer_t *t, const exec_batch_t *batch, int64_t n_global);

#endif
