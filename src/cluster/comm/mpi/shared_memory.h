/* SPDX-License-Identifier: MIT */
/* Memory shared by the ranks of a host, through MPI windows. Private to src/cluster/comm. */
#ifndef CLUSTER_COMM_MPI_SHARED_MEMORY_H
#define CLUSTER_COMM_MPI_SHARED_MEMORY_H

#include <mpi.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cluster/comm/topo.h"

/* The job's communicators: all ranks, and those of this host in order of topo_t.local_rank. */
typedef struct shared_ranks {
    MPI_Comm world, host;
    const topo_t *topo;
} shared_ranks_t;

typedef struct shared_window {
    MPI_Win win;
    char *own;      /* this rank's part: page-aligned, zeroed, its pages allocated */
    size_t n_bytes; /* size of this part */
} shared_window_t;

/* The reason for a missing window: the named host has not enough room or, if `enough`, MPI could not create
 * it. */
typedef struct shared_room {
    bool enough;
    int64_t free_bytes, need_bytes;
    char host[TOPO_HOST_MAX];
    char folder[256]; /* or "the file size limit (ulimit -f)" */
} shared_room_t;

/* Collective over the job. Creates a window on each host, or none if one host has no room. Errors are MPI's.
 *
 *   n_bytes  this rank's part; may differ between ranks, and be 0 if another rank of the host has more
 *   ok       whether the windows exist; the same on all ranks
 *   room     the reason if not */
err_t shared_window_new(const shared_ranks_t *ranks, size_t n_bytes, shared_window_t *out, bool *ok,
                        shared_room_t *room);

/* Not collective, but all ranks of the host must have returned from shared_window_new. *out: the address, in
 * this process, of the part of a rank of this host, with its n_bytes mapped. */
err_t shared_window_part(const shared_window_t *window, int local_rank, size_t n_bytes, char **out);

/* Collective over the host. */
err_t shared_window_free(shared_window_t *window);

#endif
