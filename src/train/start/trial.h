/* SPDX-License-Identifier: MIT */
/* Training steps without a run: no folder, no records, no checkpoints. For benchmarks. */
#ifndef TRAIN_START_TRIAL_H
#define TRAIN_START_TRIAL_H

#include "cluster/session/runtime.h"
#include "train/run/trainer.h"

typedef struct trial trial_t;

enum { TRIAL_BATCH = 64 };

/* The samples of a rank's step on the CPU, of so many multiply-adds each in the forward pass: a power of two, at most
 * TRIAL_BATCH, for a step of a second or so on one core. */
int64_t trial_batch_for(double macs);

typedef struct trial_options {
    const char *model, *data; /* data as --data; NULL: training's default */
    const char *precision, *algorithms, *stem;
    int64_t batch; /* global; 0: TRIAL_BATCH per rank, on the CPU less for large models */
    double timeout_sec;
} trial_options_t;

/* Collective over `comm`. All of its ranks return the same error.
 *
 *   runtime  supplies the backend and its threads
 *   comm     the whole job's communicator or part of it
 *   out      NULL after an error */
err_t trial_open(const trial_options_t *options, const runtime_t *runtime, comm_t *comm, trial_t **out);

/* Collective. One training step of a whole batch, and its cost. */
err_t trial_step(trial_t *trial, step_cost_t *cost);

/* Collective. Steps up to the first recorded ones on a GPU, since training has recorded ones; none on the host. */
err_t trial_warm_up(trial_t *trial);

/* The global batch. */
int64_t trial_batch(const trial_t *trial);

const dataset_info_t *trial_data(const trial_t *trial);

/* Collective. Accepts NULL. */
void trial_close(trial_t **trial);

#endif
