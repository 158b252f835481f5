/* SPDX-License-Identifier: MIT */
/* Work that is split over ranks and takes long: done in slices, between which the ranks agree on errors and
 * add up how far they are, so that nobody waits for another longer than a slice and the bar is that of all.
 */
#ifndef TOOLS_PACK_WORK_H
#define TOOLS_PACK_WORK_H

#include "cluster/comm/comm.h"

typedef struct pack_work {
    const char *label; /* "packing" */
    int64_t n_total;   /* bytes of all ranks */
    void *context;
    /* A little of this rank's part: a record, a shard. *n_done: the bytes of it. *finished: nothing is left.
     */
    err_t (*step)(void *context, int64_t *n_done, bool *finished);
} pack_work_t;

/* Collective. Steps until all ranks have finished, or one has an error: all then return the same. */
err_t pack_work_run(comm_t *comm, const pack_work_t *work);

#endif
