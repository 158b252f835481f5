/* SPDX-License-Identifier: MIT */
/* Guest: finds ranks that are slow (train/output/rank_times.h). Each rank's times of a step follow the gradients of a later
 * one in the same allreduce, in a slot of their own where the others add 0; rank 0 compares them, warns of a straggler and
 * records it.
 *
 * Compute is forward, backward and optimizer, without waiting in --sync-bn; data is the wait for the loader. Waiting for
 * others in the allreduce is left out of communication: it counts from the arrival of the last rank. Clocks of hosts
 * differ, so arrivals are compared on each host, and a host counts what its ranks take longer than its fastest. */
#ifndef TRAIN_GUARD_STRAGGLERS_H
#define TRAIN_GUARD_STRAGGLERS_H

#include "train/output/rank_times.h"
#include "train/run/guest.h"

extern const guest_t stragglers_guest;

/* A rank's slot; all 0: no times. */
enum {
    RANK_SLOT_COMPUTE,
    RANK_SLOT_DATA,
    RANK_SLOT_COMM,
    RANK_SLOT_ENTER,
    RANK_SLOT_ENTER_LOW,
    RANK_SLOT_FLOATS
};

/* From the slots of all ranks to their times. False if a rank has none.
 *
 *   places  [n], of the ranks
 *   out     [n] */
bool stragglers_read(const float *slots, int n, const rank_place_t *places, rank_step_t *out);

/* Of rank 0; elsewhere without windows. NULL on one rank. */
const rank_times_t *stragglers_times(const guests_t *guests);

#endif
