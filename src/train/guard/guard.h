/* SPDX-License-Identifier: MIT */
/* The guests of a training run (train/run/guest.h). */
#ifndef TRAIN_GUARD_GUARD_H
#define TRAIN_GUARD_GUARD_H

#include "base/fs.h"
#include "train/run/trainer.h"

/* All of them in the order in which they are called; ends with NULL. */
extern const guest_t *const guest_registry[];

/* Ctrl-C and SIGTERM. Not collective, on every rank, before the communicator is opened. */
err_t interruption_catch(trainer_t *t);
/* Before the trainer is freed; does not return after a signal. */
void interruption_release(void);

/* The rest is between guests. */

/* "checkpoint PATH; continue with --resume auto --out DIR": the newest checkpoint in the run's folder, and words for a
 * shell. Rank 0.
 *
 *   step  steps done */
enum { INTERRUPTION_TEXT_MAX = 3 * FS_PATH_MAX };
void interruption_how_to_resume(const char *folder, int64_t step, char out[INTERRUPTION_TEXT_MAX]);

/* Rank 0, not collective. Writes the record of a run's end: why it ended, its speed, its peak memory.
 *
 *   metrics  the run's, or a copy with a json writer of its own
 *   peaks    [n] peak memory in bytes: of rank 0, and the greatest */
err_t end_record_write(trainer_t *t, metrics_t *metrics, const char *why, const int64_t *peaks, int n);

#endif
