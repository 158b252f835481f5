/* SPDX-License-Identifier: MIT */
/* The last record of a run: why it ended, its speed, its peak memory. */
#ifndef TRAIN_GUARD_END_RECORD_H
#define TRAIN_GUARD_END_RECORD_H

#include "train/run/trainer.h"

/* Collective. Writes the record and prints it on rank 0. */
err_t end_record(trainer_t *t, const char *why);

/* Rank 0, not collective. Writes the record only.
 *
 *   metrics  the run's, or a copy with a json writer of its own
 *   peaks    [n] peak memory in bytes: of rank 0, and the greatest */
err_t end_record_write(trainer_t *t, metrics_t *metrics, const char *why, const int64_t *peaks, int n);

#endif
