/* SPDX-License-Identifier: MIT */
/* Work that rank 0 does for all: it lists a folder or reads an index, and the others get the result as bytes,
 * so that a network folder is read only once. */
#ifndef CLUSTER_COMM_FROM_RANK0_H
#define CLUSTER_COMM_FROM_RANK0_H

#include "cluster/comm/comm.h"

/* To be called repeatedly during long work; cheap. Stop the work if it returns an error. */
typedef err_t (*comm_alive_t)(void *context);

typedef struct comm_finding {
    const char *what; /* a constant string, such as "opening data" */
    void *context;
    /* On rank 0: does the work. May exceed the deadline of a wait if it keeps calling
     * alive(alive_context). */
    err_t (*find)(void *context, comm_alive_t alive, void *alive_context);
    /* On rank 0 after `find`, if there are other ranks: writes the result to a block from mem_new. */
    err_t (*save)(void *context, void **bytes, int64_t *n_bytes);
    /* On the others: reads a copy of the block, which they may keep by setting *bytes to NULL. */
    err_t (*restore)(void *context, void **bytes, int64_t n_bytes);
} comm_finding_t;

/* Collective. An error on one rank becomes an error on all, as with comm_agree; the caller then frees what
 * the context holds. */
err_t comm_share(comm_t *comm, const comm_finding_t *finding);

/* Collective. Broadcasts rank 0's block; where *block is NULL, it is allocated by mem_new. *n_bytes is read
 * on rank 0 and set on the others. */
err_t comm_broadcast_block(comm_t *comm, void **block, int64_t *n_bytes, const char *what);

#endif
