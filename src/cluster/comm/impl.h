/* What comm.c needs of each communicator. Private to src/cluster/comm. */
#ifndef CLUSTER_COMM_IMPL_H
#define CLUSTER_COMM_IMPL_H

#include "cluster/comm/buffer.h"
#include "cluster/comm/device.h"

/* Fill in a zeroed comm. On failure they leave nothing allocated; MPI, once begun, stays begun. */
err_t comm_self_open(comm_t *comm);
err_t comm_mpi_open(const comm_options_t *options, comm_t *comm);

/* What sums gradients on GPUs: the part of it that is no matter of NCCL's. */
typedef struct nccl {
    const struct nccl_ops *ops;
} nccl_t;

struct collective_spec;

typedef struct nccl_ops {
    err_t (*buffer_new)(comm_t *comm, size_t n_bytes, comm_buffer_t *out); /* Collective */
    err_t (*buffer_begin)(nccl_t *nccl, comm_buffer_t *buffer, int64_t offset, int64_t count); /* count > 0 */
    err_t (*buffer_finish)(nccl_t *nccl, comm_buffer_t *buffer);
    void (*buffer_free)(nccl_t *nccl, comm_buffer_t *buffer);
    err_t (*subset)(nccl_t *nccl, comm_t *part); /* Collective over part; makes part->nccl */
    /* Single calls on device buffers (collective.h): made ready, Collective, once; one given to NCCL; all
     * waited for. */
    err_t (*direct_open)(nccl_t *nccl);
    err_t (*direct_run)(nccl_t *nccl, const struct collective_spec *spec);
    err_t (*direct_wait)(nccl_t *nccl, const char *what);
    void (*describe)(nccl_t *nccl, char *out, size_t n_bytes);
    void (*describe_way)(nccl_t *nccl, char *out, size_t n_bytes); /* "NCCL 2.28.9, P2P/CUMEM" */
    void (*close)(nccl_t *nccl);                                   /* Collective */
} nccl_ops_t;

#ifdef DPTRAIN_CUDA
/* Finds NCCL's library. ERR_SYSTEM saying what to do. Not collective; repeating is fine. */
err_t comm_nccl_load(void);
/* "2.28.9", after comm_nccl_load. */
void nccl_version(char *out, size_t n_bytes);
/* Collective. Makes comm->nccl. ERR_PEER naming the ranks that did not come in time. */
err_t comm_nccl_open(comm_t *comm, const comm_device_t *device);
#endif

/* Private memory of this rank; also what `mpi` falls back to. */
err_t comm_private_buffer_new(comm_t *comm, size_t n_bytes, comm_buffer_t *out);
void comm_private_buffer_free(comm_t *comm, comm_buffer_t *buffer);

#endif
