/* SPDX-License-Identifier: MIT */
/* Runs long work on all ranks in time slices. Between slices the ranks agree on errors and sum up progress,
 * so that no rank waits for another longer than a slice. */
#ifndef TOOLS_PACK_WORK_H
#define TOOLS_PACK_WORK_H

#include "cluster/comm/comm.h"

typedef struct pack_work {
    const char *label; /* "packing" */
    int64_t n_total;   /* bytes of all ranks */
    void *context;
    /* Does one unit of this rank's work (a record or a shard) and sets *n_done to its bytes, or sets
     * *finished if none is left. */
    err_t (*step)(void *context, int64_t *n_done, bool *finished);
} pack_work_t;

/* Steps until all ranks have finished or one fails; all return the same error. Collective. */
err_t pack_work_run(comm_t *comm, const pack_work_t *work);

#endif
