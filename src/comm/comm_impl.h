/* What comm.c needs of each communicator. Private to src/comm. */
#ifndef COMM_COMM_IMPL_H
#define COMM_COMM_IMPL_H

#include "comm/comm.h"

/* Fill in a zeroed comm. On failure they leave nothing allocated; MPI, once begun, stays begun. */
err_t comm_self_open(comm_t *comm);
err_t comm_mpi_open(const comm_options_t *options, comm_t *comm);

#ifdef DPTRAIN_CUDA
/* Collective. Makes comm->nccl. */
err_t comm_nccl_open(comm_t *comm, const comm_device_t *device);
void comm_nccl_close(comm_t *comm); /* Collective */
#endif

/* Private memory of this rank; also what `mpi` falls back to. */
err_t comm_private_buffer_new(comm_t *comm, size_t n_bytes, comm_buffer_t *out);
void comm_private_buffer_free(comm_t *comm, comm_buffer_t *buffer);

#endif
