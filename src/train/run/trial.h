/* SPDX-License-Identifier: MIT */
/* Training steps without a run around them: no folder, no records, no checkpoints. For measuring. */
#ifndef TRAIN_RUN_TRIAL_H
#define TRAIN_RUN_TRIAL_H

#include "cluster/session/runtime.h"
#include "train/run/step.h"

typedef struct trial trial_t;

typedef struct trial_options {
    const char *model, *data; /* data: as --data; NULL: as training chooses */
    const char *precision, *algorithms;
    int64_t batch; /* of all ranks */
    double timeout_sec;
} trial_options_t;

/* Collective over `comm`, which is the whole job's or part of it; runtime's backend and threads compute. An
 * error is known to all of comm's ranks. */
err_t trial_open(const trial_options_t *options, const runtime_t *runtime, comm_t *comm, trial_t **out);

/* Collective. One step of a whole batch, as training does it. *cost: what it took. */
err_t trial_step(trial_t *trial, step_cost_t *cost);

const dataset_info_t *trial_data(const trial_t *trial);

/* Collective, also after an error of trial_open that left NULL, when nothing happens. */
void trial_close(trial_t **trial);

#endif
