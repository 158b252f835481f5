/* SPDX-License-Identifier: MIT */
/* Work done by rank 0 for all: it lists a folder or reads an index, and the others get the result as bytes,
 * so that a network folder is accessed once. */
#ifndef CLUSTER_COMM_FROM_RANK0_H
#define CLUSTER_COMM_FROM_RANK0_H

#include "cluster/comm/comm.h"

/* Called repeatedly during long work; cheap. An error ends the work, so it does not go on for ever. */
typedef err_t (*comm_alive_t)(void *context);

typedef struct comm_finding {
    const char *what; /* a constant string, such as "opening data" */
    void *context;
    /* On rank 0. It may exceed the deadline of a wait as long as it calls alive(alive_context); a hanging
     * rank 0 is still reported. */
    err_t (*find)(void *context, comm_alive_t alive, void *alive_context);
    /* On rank 0 after `find`, if there are other ranks: writes the result to a block from mem_new. */
    err_t (*save)(void *context, void **bytes, int64_t *n_bytes);
    /* On the others: reads a copy of the block, which they may keep by setting *bytes to NULL. */
    err_t (*restore)(void *context, void **bytes, int64_t n_bytes);
} comm_finding_t;

/* Collective. An error on one rank becomes an error on all, as with comm_agree; the owner of the context then
 * frees what it holds. */
err_t comm_share(comm_t *comm, const comm_finding_t *finding);

/* Collective. Broadcasts rank 0's block; where *block is NULL it is allocated with mem_new. Only rank 0 needs
 * to know the size. */
err_t comm_broadcast_block(comm_t *comm, void **block, int64_t *n_bytes, const char *what);

#endif
