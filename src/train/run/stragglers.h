/* SPDX-License-Identifier: MIT */
/* Finds ranks that are slow (train/output/rank_times.h). Each rank's times of a step follow the gradients of a later one
 * in the same allreduce, in a slot of their own where the others add 0; rank 0 compares them. Without collectives; does
 * nothing on one rank. Internal to train/run.
 *
 * Compute is forward, backward and optimizer, without waiting in --sync-bn; data is the wait for the loader. Waiting for
 * others in the allreduce is left out of communication: it counts from the arrival of the last rank. Clocks of hosts
 * differ, so arrivals are compared on each host, and a host counts what its ranks take longer than its fastest. */
#ifndef TRAIN_RUN_STRAGGLERS_H
#define TRAIN_RUN_STRAGGLERS_H

#include "train/run/trainer.h"

/* A rank's slot; all 0: no times. */
enum {
    RANK_SLOT_COMPUTE,
    RANK_SLOT_DATA,
    RANK_SLOT_COMM,
    RANK_SLOT_ENTER,
    RANK_SLOT_ENTER_LOW,
    RANK_SLOT_FLOATS
};

/* Floats of all slots, which follow TAIL_COUNT. */
int64_t stragglers_floats(const trainer_t *t);

/* After trainer_begin. */
err_t stragglers_open(trainer_t *t);
void stragglers_close(trainer_t *t);

/* Fills this rank's slot before a step, and clears the others.
 *
 *   slots  tail + TAIL_COUNT */
void stragglers_put(trainer_t *t, float *slots);
/* After the allreduce: takes the slots. Rank 0 warns of a straggler, and records it. */
err_t stragglers_take(trainer_t *t, const float *slots);
/* Notes a finished step's times. */
void stragglers_note(trainer_t *t, const step_result_t *result);

/* From the slots of all ranks to their times. False if a rank has none.
 *
 *   places  [n], of the ranks
 *   out     [n] */
bool stragglers_read(const float *slots, int n, const rank_place_t *places, rank_step_t *out);

#endif
