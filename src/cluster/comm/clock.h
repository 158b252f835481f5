/* Clocks of different hosts on one time line. A monotonic clock starts anywhere, so between hosts only
 * differences can be compared, until the offset is known. */
#ifndef CLUSTER_COMM_CLOCK_H
#define CLUSTER_COMM_CLOCK_H

#include "cluster/comm/comm.h"

/* Collective. What must be added to this rank's `clock` (seconds) to get rank 0's, and the most that this may
 * be wrong. Each rank asks rank 0 for the time, several times; the question with the shortest round trip
 * counts, its middle taken as the moment of the answer, which cannot be wrong by more than half the round
 * trip (Cristian, "Probabilistic clock synchronization", 1989). 0 and 0 on rank 0. */
err_t comm_clock_offset(comm_t *comm, double (*clock)(void), double *offset_sec, double *error_sec);

/* An offset as it was measured at some moment of this rank's clock. */
typedef struct comm_clock_mark {
    double at_sec, offset_sec;
} comm_clock_mark_t;

/* This rank's time as rank 0's, by the line through two marks: clocks drift. Not collective. */
double comm_clock_map(comm_clock_mark_t first, comm_clock_mark_t last, double sec);

#endif
