/* Memory that the ranks of a host share, by way of MPI's windows. Private to src/cluster/comm. */
#ifndef CLUSTER_COMM_MPI_SHARED_H
#define CLUSTER_COMM_MPI_SHARED_H

#include <mpi.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cluster/comm/topo.h"

/* The job's communicators: all ranks, and those of this host in the order of topo_t.local_rank. */
typedef struct shared_ranks {
    MPI_Comm world, host;
    const topo_t *topo;
} shared_ranks_t;

typedef struct shared_window {
    MPI_Win win;
    char *own;      /* this rank's part: on a page boundary, zeroed, its pages there already */
    size_t n_bytes; /* of it */
} shared_window_t;

/* Why there is no window: a host without room, or (enough) MPI could not make it. */
typedef struct shared_room {
    bool enough;
    int64_t free_bytes, need_bytes;
    char host[TOPO_HOST_MAX], folder[256];
} shared_room_t;

/* Collective over the job. A window on each host, n_bytes of it this rank's (they may differ; 0 is fine where
 * another rank of the host has more). All ranks get theirs or (*ok false, `room` says why) none does; an
 * error is MPI's. */
err_t shared_window_new(const shared_ranks_t *ranks, size_t n_bytes, shared_window_t *out, bool *ok,
                        shared_room_t *room);

/* Where a rank of this host has its part, n_bytes long, in this process; its pages are mapped when this
 * returns. Not collective, but every rank of the host must have returned from shared_window_new. */
err_t shared_window_part(const shared_window_t *window, int local_rank, size_t n_bytes, char **out);

/* Collective over the host. */
err_t shared_window_free(shared_window_t *window);

#endif
