/* SPDX-License-Identifier: MIT */
/* Compares what is computed again with what the run recorded, and says who computed wrongly. Rank 0 only, not
 * collective. */
#ifndef TRAIN_REPLAY_JUDGE_H
#define TRAIN_REPLAY_JUDGE_H

#include "base/err.h"
#include "train/replay/plan.h"
#include "train/run/rerun.h"

typedef struct judge {
    run_record_t *record;
    const replay_plan_t *plan;
    const rerun_t *rerun;
    const char *folder;
    int64_t n_gradients, n_checks, n_checkpoints; /* compared and found equal */
    bool differs;
    message_t verdict; /* if it differs */
} judge_t;

/* What the run did after a step. */
typedef struct judge_orders {
    bool averages, follows;
    double value; /* of the metric that it follows */
} judge_orders_t;

/* Before the first step: the checkpoint against the ranks' comparison of replicas just before it was written. */
err_t judge_start(judge_t *judge);
/* Call both after each step, until judge->differs. First: the gradients of the ranks, and what follows. */
err_t judge_gradients(judge_t *judge, judge_orders_t *orders);
/* Then, with the orders carried out: weights, optimizer state, running statistics. */
err_t judge_state(judge_t *judge);

#endif
