/* One training step. Part of train. */
#ifndef TRAIN_RUN_STEP_H
#define TRAIN_RUN_STEP_H

#include "train/run/trainer.h"

/* What one step cost: seconds by what they were spent on, blocks allocated, pages touched for the first time.
 */
typedef struct step_cost {
    double data, forward, backward, comm, optimizer, total;
    double cpu; /* of all threads of this process */
    int64_t n_allocations, n_page_faults;
} step_cost_t;

typedef struct step_result {
    double loss; /* mean over the global batch */
    int64_t n_correct, n;
    bool checkpoint_due, stop, failed;
    bool bad_found; /* a rank has bad pictures to tell of */
} step_result_t;

/* Learning rate of the next step. */
double trainer_rate(const trainer_t *t);

/* Collective. The next step: t->at is not moved on. ERR_GATE naming step and layer when the loss is not
 * finite. */
err_t trainer_step(trainer_t *t, step_result_t *result, step_cost_t *cost);

#endif
