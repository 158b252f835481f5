/* SPDX-License-Identifier: MIT */
/* --target METRIC=X and --target-accuracy X: ends a run when an evaluation reaches a value. Not
 * collective. */
#ifndef TRAIN_GUARD_TARGET_H
#define TRAIN_GUARD_TARGET_H

#include "train/task/metric.h"

typedef struct train_target {
    int metric; /* index in the task's metrics; -1: no target */
    double value;
    char option[80]; /* as the user gave it, for messages */
} train_target_t;

/* Checks the syntax of --target; the metric is checked once the task is known. */
err_t train_target_check(const char *target);

/* ERR_USAGE: the task has no such metric, or it never has such a value.
 *
 *   target    --target; NULL: not given
 *   accuracy  --target-accuracy; 0: not given */
err_t train_target_make(const char *target, double accuracy, const task_metrics_t *metrics,
                        train_target_t *out);

/* best: of each metric, NAN: not evaluated yet */
bool train_target_reached(const train_target_t *target, const task_metrics_t *metrics, const double *best);

/* ERR_GATE if the run ends without having reached its target. */
err_t train_target_judge(const train_target_t *target, const task_metrics_t *metrics, const double *best);

#endif
