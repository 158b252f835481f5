/* SPDX-License-Identifier: MIT */
/* `dptrain replay`: steps of a run with --reproducible computed again, to find out which host computed wrongly. Only
 * reads the run's folder; the run may still be going on. */
#ifndef TRAIN_REPLAY_REPLAY_H
#define TRAIN_REPLAY_REPLAY_H

#include "cluster/session/runtime.h"

typedef struct replay_options {
    const char *folder, *data; /* data: in place of the run's; NULL: its own */
    int64_t step;              /* see replay_plan; -1: none was given */
    runtime_options_t runtime; /* device and threads are the run's */
} replay_options_t;

/* Collective. Opens and closes the runtime, as `dptrain train` does. ERR_GATE: the bits differ, with who computed them;
 * ERR_USAGE: they cannot be compared here; ERR_DATA: the record, the checkpoint or the data is missing or damaged. */
err_t replay_run(const replay_options_t *options, void (*abort_job)(err_t code));

#endif
