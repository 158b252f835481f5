/* SPDX-License-Identifier: MIT */
/* Shared by the files of the `mpi` communicator. Private to src/cluster/comm. */
#ifndef CLUSTER_COMM_MPI_IMPL_H
#define CLUSTER_COMM_MPI_IMPL_H

#include <mpi.h>

#include "cluster/comm/collective.h"
#include "cluster/comm/gradients.h"
#include "cluster/comm/mpi/host.h"
#include "cluster/comm/mpi/shared_memory.h"
#include "cluster/comm/side_channel.h"
#include "cluster/comm/watchdog.h"

typedef struct mpi_impl {
    shared_ranks_t ranks;
    bool we_began;             /* MPI was initialized here and must be finalized */
    bool warned;               /* that gradient buffers are not shared */
    bool is_part;              /* made by comm_subset; uses the parent's watchdog */
    int ranks_per_host;        /* --ranks-per-host */
    const char *choice;        /* --allreduce */
    shared_window_t page;      /* the host's page: slots of the watchdog and of host_t */
    side_t *side;              /* of the watchdog; NULL: none */
    watchdog_slot_t *own_slot; /* if the ranks of the host share no page */
    host_t host;
    int *gather_counts; /* [2 × size], of mpi_allgatherv */
} mpi_impl_t;

/* Functions of comm_ops_t (open.c). */
extern const comm_ops_t comm_mpi;
err_t mpi_open(const comm_options_t *options, comm_t *comm);
err_t mpi_subset(comm_t *comm, int n, comm_t *out);
void mpi_close(comm_t *comm);

/* Gradients in host memory (buffer.c), and single collectives over MPI (collective.c). */
extern const gradient_ops_t gradients_host;
extern const collective_ops_t collective_mpi;

#endif
