/* SPDX-License-Identifier: MIT */
/* --checkpoint-every auto: Young's interval (J. W. Young, "A first order approximation to the optimum checkpoint
 * interval", CACM 17, 1974): sqrt(2 C M) for checkpoints that stop training for C and a mean time M between failures.
 * C is the median of the run's last checkpoints. Rank 0 decides; the others hear of a checkpoint that is due in the
 * step's totals. Not collective. Internal to train/run. */
#ifndef TRAIN_RUN_CHECKPOINT_INTERVAL_H
#define TRAIN_RUN_CHECKPOINT_INTERVAL_H

#include "train/run/trainer.h"

/* At most mtbf_sec; at least cost_sec, so that half of the time is left to training.
 *
 *   cost_sec   above 0 */
double young_interval_sec(double cost_sec, double mtbf_sec);

/* Adds a checkpoint's cost: the time that it stopped training. */
void checkpoint_interval_add(checkpoint_costs_t *costs, double cost_sec, double mtbf_sec);

/* Whether a checkpoint is due by the clock, on rank 0. With auto the first of a run is due after the warm-up: it
 * measures the cost. */
bool checkpoint_interval_due(const trainer_t *t);

/* "every 14.7 s (auto: …)"; "" without auto. */
enum { CHECKPOINT_INTERVAL_TEXT_MAX = 200 };
void checkpoint_interval_text(const trainer_t *t, char out[CHECKPOINT_INTERVAL_TEXT_MAX]);

#endif
