/* SPDX-License-Identifier: MIT */
/* Maps the clocks of all hosts to one time line. Monotonic clocks start at arbitrary times, so those of two
 * hosts cannot be compared until their offset is known. */
#ifndef CLUSTER_COMM_CLOCK_H
#define CLUSTER_COMM_CLOCK_H

#include "cluster/comm/comm.h"

/* Collective. Measures the offset of rank 0's clock. Each rank asks rank 0 for the time repeatedly and uses
 * the shortest round trip: the answer is assumed to come from its middle, which is wrong by at most half the
 * round trip (Cristian, "Probabilistic clock synchronization", 1989).
 *
 *   clock       returns seconds
 *   offset_sec  to be added to this rank's clock; 0 on rank 0
 *   error_sec   largest possible error; 0 on rank 0 */
err_t comm_clock_offset(comm_t *comm, double (*clock)(void), double *offset_sec, double *error_sec);

/* An offset measured at some moment of this rank's clock. */
typedef struct comm_clock_mark {
    double at_sec, offset_sec;
} comm_clock_mark_t;

/* Not collective. Converts a time of this rank to rank 0's clock. Clocks drift, so the offset is interpolated
 * between two marks. */
double comm_clock_map(comm_clock_mark_t first, comm_clock_mark_t last, double sec);

#endif
