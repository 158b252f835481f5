/* SPDX-License-Identifier: MIT */
/* Two jobs on the same hosts that take turns, batch by batch: while one measures, the other sleeps. What the
 * machine does for half a second then befalls both, and cancels in the ratio of neighbouring batches: two
 * builds or settings can be told apart on a machine that is not quiet. Both measure the same points in the
 * same order. Rank 0's of the two talk over two FIFOs in a folder that both see (so they run on one host);
 * their batches are in the order A B B A A B B A …, and whatever else a job does (preparing, checking) it
 * does in its turn. */
#ifndef TOOLS_BENCH_TURNS_H
#define TOOLS_BENCH_TURNS_H

#include "cluster/comm/comm.h"

typedef struct turns turns_t;

/* Collective. spec: FOLDER:first or FOLDER:second. id: of this run, told to the other job. Meets the other
 * job and waits for the first turn. ERR_USAGE: the spec; ERR_SYSTEM: the folder; ERR_PEER: the other job did
 * not come within timeout_sec, or ended at once; ERR_GATE: a signal (cluster/session/stop.h) ended the wait.
 */
err_t turns_open(comm_t *comm, const char *spec, const char *id, double timeout_sec, turns_t **out);

/* The run that this one takes turns with. On rank 0; elsewhere "". */
const char *turns_other(const turns_t *turns);

/* Collective. Before the batches of a point: how many of them both take; n is this job's request, that of the
 * first job counts. `what` must be the same in both jobs: ERR_USAGE otherwise. */
err_t turns_begin_point(turns_t *turns, const char *what, int n, int *out);

/* Collective. Behind every batch: gives the turn away and waits until it is back, where the order wants that.
 */
err_t turns_end_batch(turns_t *turns);

/* Collective. The other job has the rest of the time. Takes NULL. */
void turns_close(turns_t **turns);

#endif
