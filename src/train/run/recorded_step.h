/* SPDX-License-Identifier: MIT */
/* Recorded steps (CUDA graphs): whether they can be had, and one recording for each size of batch. Part of
 * train. Not collective. */
#ifndef TRAIN_RUN_RECORDED_STEP_H
#define TRAIN_RUN_RECORDED_STEP_H

#include "compute/ops/backend.h"

enum { REPLAY_MAX = 4 };

typedef struct replay {
    const backend_t *backend;
    const char *why_not; /* what stands in the way; NULL: steps are recorded */
    int n;
    struct {
        int64_t n_samples;
        void *graph;
    } recordings[REPLAY_MAX];
} replay_t;

/* choice: --cuda-graph. why_not: what in this run cannot be recorded, or NULL. ERR_USAGE when the choice is
 * "on" and it cannot be had. */
err_t replay_open(const backend_t *backend, const char *choice, const char *why_not, replay_t *out);
void replay_close(replay_t *replay);

/* The recording for batches of n_samples; NULL: there is none yet. */
void *replay_find(const replay_t *replay, int64_t n_samples);

/* Whether a batch of n_samples is to be recorded. */
bool replay_wants(const replay_t *replay, int64_t n_samples);

/* Records what work(context) gives to the device, without running it. An error of work is returned as it is. */
err_t replay_record(replay_t *replay, int64_t n_samples, err_t (*work)(void *context), void *context);

#endif
