/* SPDX-License-Identifier: MIT */
/* `dptrain train`: one run from start to end. */
#ifndef TRAIN_RUN_TRAIN_H
#define TRAIN_RUN_TRAIN_H

#include "train/run/options.h"

/* Collective. Options parsed and checked (train_options_check). Prints to people, writes metrics and
 * checkpoints. ERR_GATE when the loss stopped being finite. abort_job ends the whole job from any thread. */
err_t train_run(train_options_t *options, opt_group_t groups[TRAIN_N_GROUPS], void (*abort_job)(err_t code));

#endif
