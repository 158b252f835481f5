/* SPDX-License-Identifier: MIT */
/* The topology of the ranks of an MPI communicator. */
#ifndef CLUSTER_COMM_MPI_TOPO_H
#define CLUSTER_COMM_MPI_TOPO_H

#include <mpi.h>

#include "cluster/comm/topo.h"

/* Collective over `world`. As topo_discover, for the ranks of `world`.
 *
 *   places  [size], of all ranks; from mem_new */
err_t topo_discover_in(MPI_Comm world, int ranks_per_host, topo_t *out, rank_place_t **places);

#endif
