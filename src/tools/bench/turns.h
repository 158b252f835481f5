/* SPDX-License-Identifier: MIT */
/* Two jobs on the same host that take turns, batch by batch: while one measures, the other sleeps. Slow
 * disturbances then affect both and cancel in the ratio of neighbouring batches, so that two builds or
 * settings can be compared on a machine that is not quiet. Both jobs measure the same points in the same
 * order, in batches A B B A A B B A …; a job also does all other work (preparing, checking) in its turn.
 * Rank 0 of each job communicates through two FIFOs in a folder. */
#ifndef TOOLS_BENCH_TURNS_H
#define TOOLS_BENCH_TURNS_H

#include "cluster/comm/comm.h"

typedef struct turns turns_t;

/* Collective. Connects to the other job and waits for the first turn.
 *
 *   spec  FOLDER:first or FOLDER:second
 *   id    of this run, sent to the other job
 *
 * ERR_USAGE: the spec. ERR_SYSTEM: the folder. ERR_PEER: the other job did not start within timeout_sec, or
 * ended. ERR_GATE: a signal (cluster/session/signals.h) ended the wait. */
err_t turns_open(comm_t *comm, const char *spec, const char *id, double timeout_sec, turns_t **out);

/* Id of the other run, on rank 0; elsewhere "". */
const char *turns_other(const turns_t *turns);

/* Collective. Call before the batches of a point. ERR_USAGE if the other job is at another point.
 *
 *   what  name of the point
 *   n     batches that this job asks for
 *   out   batches that both jobs take: as the first job asks */
err_t turns_begin_point(turns_t *turns, const char *what, int n, int *out);

/* Collective. Call after every batch: hands over the turn, if due, and waits for its return. */
err_t turns_end_batch(turns_t *turns);

/* Collective. Leaves the remaining time to the other job. Takes NULL. */
void turns_close(turns_t **turns);

#endif
