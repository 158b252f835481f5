/* SPDX-License-Identifier: MIT */
/* Recorded steps (CUDA graphs): whether they can be had, and one recording for each size of batch. Part of
 * train. Not collective. */
#ifndef TRAIN_RUN_RECORDED_STEP_H
#define TRAIN_RUN_RECORDED_STEP_H

#include "compute/ops/backend.h"

enum { RECORDED_STEP_MAX = 4 };

typedef struct recorded_step {
    const backend_t *backend;
    const char *why_not; /* what stands in the way; NULL: steps are recorded */
    int n;
    struct {
        int64_t n_samples;
        void *graph;
    } recordings[RECORDED_STEP_MAX];
} recorded_step_t;

/* choice: --cuda-graph. why_not: what in this run cannot be recorded, or NULL. ERR_USAGE when the choice is
 * "on" and it cannot be had. */
err_t recorded_step_open(const backend_t *backend, const char *choice, const char *why_not,
                         recorded_step_t *out);
void recorded_step_close(recorded_step_t *recorded);

/* The recording for batches of n_samples; NULL: there is none yet. */
void *recorded_step_find(const recorded_step_t *recorded, int64_t n_samples);

/* Whether a batch of n_samples is to be recorded. */
bool recorded_step_wants(const recorded_step_t *recorded, int64_t n_samples);

/* Records what work(context) gives to the device, without running it. An error of work is returned as it is. */
err_t recorded_step_record(recorded_step_t *recorded, int64_t n_samples, err_t (*work)(void *context),
                           void *context);

#endif
