/* SPDX-License-Identifier: MIT */
/* --checkpoint-every auto: Young's interval (J. W. Young, "A first order approximation to the optimum checkpoint
 * interval", CACM 17, 1974): sqrt(2 C M) for checkpoints that stop training for C and a mean time M between failures.
 * C is the median of the run's last checkpoints. Not collective. */
#ifndef TRAIN_GUARD_CHECKPOINT_INTERVAL_H
#define TRAIN_GUARD_CHECKPOINT_INTERVAL_H

#include "train/run/options.h"

/* What checkpoints cost. */
enum { CHECKPOINT_COSTS = 9 };
typedef struct checkpoint_costs {
    double sec[CHECKPOINT_COSTS]; /* a ring of the last */
    int64_t n;                    /* added so far */
    double usual_sec, interval_sec;
} checkpoint_costs_t;

/* At most mtbf_sec; at least cost_sec, so that half of the time is left to training.
 *
 *   cost_sec   above 0 */
double young_interval_sec(double cost_sec, double mtbf_sec);

/* Adds a checkpoint's cost: the time that it stopped training. */
void checkpoint_interval_add(checkpoint_costs_t *costs, double cost_sec, double mtbf_sec);

/* "every 14.7 s (auto: …)"; "" without auto.
 *
 *   cost_sec   of the first checkpoint, or of the last of the run before; 0: unknown */
enum { CHECKPOINT_INTERVAL_TEXT_MAX = 200 };
void checkpoint_interval_text(const train_options_t *options, double cost_sec,
                              char out[CHECKPOINT_INTERVAL_TEXT_MAX]);

#endif
