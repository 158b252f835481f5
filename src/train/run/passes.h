/* SPDX-License-Identifier: MIT */
/* Forward and backward of a step, for step.c, with its marks, times and places in memory. */
#ifndef TRAIN_RUN_PASSES_H
#define TRAIN_RUN_PASSES_H

#include "train/run/trainer.h"

static inline int step_slot(int64_t number)
{
    return (int)(number % BACKEND_SLOTS);
}

/* The values after the gradients (TAIL_…) of a step, host side: on the host the end of the gradients themselves. */
static inline float *step_tail(const trainer_t *t, int64_t number)
{
    return t->learning.tails[step_slot(number)].host;
}

static inline float *step_device_tail(const trainer_t *t)
{
    return (float *)t->learning.grads.device + t->model.graph->n_flat_trained;
}

static inline bool step_on_device(const trainer_t *t)
{
    return t->steps.plan.way != STEP_ON_HOST;
}

/* Clears loss and count on the host. step_compute copies the tail to the device, also in a recording. */
void step_clear_tail(const trainer_t *t, int64_t number);

/* Adds a span of a step to the trace. */
void step_trace(int64_t step, const char *name, double start, double end, int64_t n_bytes);

/* Marks the end of a phase: *when receives the host clock; a GPU also records an event, which can be read
 * when the step has ended. */
enum { MARK_BEGIN, MARK_FORWARD, MARK_BACKWARD, MARK_COMM, MARK_UPDATE, STEP_MARKS };
err_t step_note(const trainer_t *t, int64_t number, int mark, double *when);

/* The backend's mark at the end of a step that needs no host, outside of its recording; valid until the step
 * after the next has begun. */
static inline int step_end_mark(int64_t number)
{
    return BACKEND_SLOTS * STEP_MARKS + (int)(number % (BACKEND_SLOTS + 1));
}

/* GPU only: measures the time between two marks of step t->at.step and adds its span to the trace.
 *
 *   last   the mark that anchors the span on the host clock
 *   end    host time of `last`
 *   sec    receives the time from `from` to `to` */
err_t step_read_marks(const trainer_t *t, int from, int to, int last, double end, const char *name,
                      double *sec);

/* Injected slowdown of a phase that processed n of this rank's samples. */
void step_slowdown(trainer_t *t, const char *phase, int64_t n);

/* Computes the gradients of this rank's part of a step's batch (train_step_t): into the gradient buffer and its tail, or
 * with --reproducible per shard into t->learning.shards. */
err_t step_compute(void *step);

/* Collective. Every rank searches for the first non-finite layer; the lowest rank that finds one reports it
 * as ERR_GATE, and is named unless all find the same. ERR_PEER: the ranks' weights differ. */
err_t step_report_nonfinite(const train_step_t *step);

#endif
