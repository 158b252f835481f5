/* SPDX-License-Identifier: MIT */
/* Puts the clocks of different hosts on one time line. Monotonic clocks start at arbitrary times, so clocks
 * of two hosts cannot be compared before their offset is known. */
#ifndef CLUSTER_COMM_CLOCK_H
#define CLUSTER_COMM_CLOCK_H

#include "cluster/comm/comm.h"

/* Collective. Measures what to add to this rank's `clock` (seconds) to get rank 0's, and the largest possible
 * error; 0 and 0 on rank 0. Each rank asks rank 0 for the time repeatedly. The round trip that was shortest
 * counts: its middle is taken as the moment of the answer, which is wrong by at most half the round trip
 * (Cristian, "Probabilistic clock synchronization", 1989). */
err_t comm_clock_offset(comm_t *comm, double (*clock)(void), double *offset_sec, double *error_sec);

/* An offset measured at some moment of this rank's clock. */
typedef struct comm_clock_mark {
    double at_sec, offset_sec;
} comm_clock_mark_t;

/* Not collective. This rank's time on rank 0's clock, interpolated through two marks: clocks drift. */
double comm_clock_map(comm_clock_mark_t first, comm_clock_mark_t last, double sec);

#endif
