/* What one rank finds out for all: rank 0 lists a folder or reads an index, the others get it as bytes, so
 * that a network folder is asked once. */
#ifndef CLUSTER_COMM_SHARE_H
#define CLUSTER_COMM_SHARE_H

#include "cluster/comm/comm.h"

/* Called again and again by what takes long; cheap, and not for ever: an error ends the work. */
typedef err_t (*comm_alive_t)(void *context);

typedef struct comm_finding {
    const char *what; /* a constant string: "opening data" */
    void *context;
    /* On rank 0, which may take longer than a wait's deadline while it calls alive(alive_context); a rank 0
     * that hangs is told of as ever. */
    err_t (*find)(void *context, comm_alive_t alive, void *alive_context);
    /* On rank 0 after that, where there are other ranks: a block of mem_new. */
    err_t (*save)(void *context, void **bytes, int64_t *n_bytes);
    /* On the others: a copy of the block, which they may keep (then *bytes is NULL). */
    err_t (*restore)(void *context, void **bytes, int64_t n_bytes);
} comm_finding_t;

/* Collective. An error of one rank is all ranks', as comm_agree says; the context's owner then frees what it
 * holds. */
err_t comm_share(comm_t *comm, const comm_finding_t *finding);

/* Collective. Rank 0's block for all: where *block is NULL it is made, of mem_new; rank 0 alone needs to know
 * its size. */
err_t comm_broadcast_block(comm_t *comm, void **block, int64_t *n_bytes, const char *what);

#endif
