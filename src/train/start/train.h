/* SPDX-License-Identifier: MIT */
/* `dptrain train`: one run from start to end. */
#ifndef TRAIN_START_TRAIN_H
#define TRAIN_START_TRAIN_H

#include "train/run/options.h"

/* Collective. Trains, logs progress, and writes metrics and checkpoints; with --preview, only draws the first samples.
 *
 *   options    parsed and checked by train_options_check
 *   abort_job  ends the whole job; callable from any thread
 *
 * ERR_GATE when the loss is not finite or --target is not reached. */
err_t train_run(train_options_t *options, void (*abort_job)(err_t code));

#endif
