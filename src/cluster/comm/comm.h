/* Communicators: how the ranks of a job exchange data. One table of function pointers, chosen once.
 *
 * Every function marked Collective must be called by all ranks in the same order. Every wait has a deadline
 * (cluster/comm/watchdog.h): when it passes, the run names the collective, the ranks that did not arrive and
 * what each was last doing, and the job ends with ERR_PEER. `what` is a constant string that names the call
 * to people. */
#ifndef CLUSTER_COMM_COMM_H
#define CLUSTER_COMM_COMM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "cluster/comm/topo.h"
#include "compute/tensor/dtype.h"

typedef enum comm_op { COMM_SUM, COMM_MAX, COMM_MIN } comm_op_t;

typedef struct comm comm_t;
typedef struct comm_buffer comm_buffer_t; /* cluster/comm/buffer.h */

typedef struct comm_options {
    /* One of comm_names; auto: mpi under a launcher, else self. nccl is mpi, but for gradients on GPUs
     * (cluster/comm/device.h). */
    const char *name;
    double timeout_sec;    /* deadline of every wait */
    const char *allreduce; /* who sums gradient buffers: NULL or "auto", "host", "mpi" */
    bool share_gpu;        /* several ranks may use one GPU */
    bool nccl_register;    /* gradient buffers are registered with NCCL where it supports that */
    bool wire_bf16;        /* NCCL sums gradients rounded to bfloat16 */
    int ranks_per_host;    /* for tests: hosts are cut into groups of so many ranks; 0: not */
    /* Ends the job from any thread (main.c's MPI_Abort); must not return. */
    void (*abort_job)(err_t code);
} comm_options_t;

typedef struct comm_ops {
    const char *name; /* "self", "mpi" */
    /* Fills in a zeroed comm. On failure it leaves nothing allocated; MPI, once begun, stays begun. */
    err_t (*open)(const comm_options_t *options, comm_t *comm);
    err_t (*barrier)(comm_t *comm);
    err_t (*barrier_asleep)(comm_t *comm);
    err_t (*subset)(comm_t *comm, int n, comm_t *out); /* n: from 2 to size */
    err_t (*broadcast)(comm_t *comm, void *data, int64_t n_bytes, int root);
    err_t (*allreduce)(comm_t *comm, void *data, int64_t count, dtype_t dtype, comm_op_t op);
    err_t (*allgather)(comm_t *comm, const void *send, int64_t n_bytes, void *recv);
    err_t (*alltoall)(comm_t *comm, const void *send, int64_t n_bytes, void *recv);
    /* A short message between two ranks; each waits for the other. */
    err_t (*send)(comm_t *comm, const void *data, int64_t n_bytes, int to);
    err_t (*receive)(comm_t *comm, void *data, int64_t n_bytes, int from);
    err_t (*buffer_new)(comm_t *comm, size_t n_bytes, comm_buffer_t *out);
    err_t (*buffer_allreduce)(comm_t *comm, comm_buffer_t *buffer, int64_t count); /* of a shared one */
    void (*buffer_free)(comm_t *comm, comm_buffer_t *buffer);
    void (*describe)(char *out, size_t n_bytes);
    void (*close)(comm_t *comm);
} comm_ops_t;

struct comm {
    const comm_ops_t *ops;
    int rank, size;
    topo_t topo;
    err_t agreed; /* what the last comm_agree returned: an error that every rank knows of */
    void *impl;
    comm_options_t options;
    struct nccl *nccl;     /* what sums gradients on GPUs; NULL: they are summed in host memory */
    struct comm_gpu *gpus; /* [size], see cluster/comm/device.h; NULL: no GPUs */
};

/* Names for --comm and --allreduce, NULL-terminated. */
extern const char *const comm_names[], *const comm_allreduce_names[];

/* Collective. Initialises MPI where the chosen communicator needs it (MPI_THREAD_FUNNELED) and starts the
 * watchdog. ERR_USAGE when the choice can't be had (self with several ranks; nccl in a build without it;
 * allreduce host where no two ranks share memory). */
err_t comm_open(const comm_options_t *options, comm_t **out);

/* Collective. Ends MPI too where comm_open began it. NULL inside is fine. */
void comm_close(comm_t **comm);

/* Collective. A communicator of ranks 0 … n - 1 of `comm`, which alone get it; *out is NULL elsewhere. Close
 * it (Collective among them) before `comm`. */
err_t comm_subset(comm_t *comm, int n, comm_t **out);
/* Not collective. A communicator of this rank alone. */
err_t comm_alone(comm_t **out);

/* The library that moves the data and its version, for the run record. Not collective. */
void comm_describe(const comm_t *comm, char *out, size_t n_bytes);

/* Collective. */
err_t comm_barrier(comm_t *comm, const char *what);
/* A barrier whose waiting takes no CPU, and up to a millisecond more. Also brings together again what the
 * watchdogs count, after some ranks have been at work in a subset. */
err_t comm_barrier_asleep(comm_t *comm, const char *what);
err_t comm_broadcast(comm_t *comm, void *data, int64_t n_bytes, int root, const char *what);
/* Collective. In place over count elements; F32, F64, I32, I64. Sums run in an order that may depend on the
 * number of ranks but not on timing. */
err_t comm_allreduce(comm_t *comm, void *data, int64_t count, dtype_t dtype, comm_op_t op, const char *what);
/* Collective. recv: size × n_bytes, in rank order. */
err_t comm_allgather(comm_t *comm, const void *send, int64_t n_bytes, void *recv, const char *what);

/* Collective. Piece r of n_bytes (up to 2 GiB) in send goes to rank r; recv holds the pieces of all in rank
 * order. */
err_t comm_alltoall(comm_t *comm, const void *send, int64_t n_bytes, void *recv, const char *what);

/* Collective. Where one rank can fail alone, all agree before the next collective: every rank gives its own
 * result (and, through err_message, its message); all return the worst code, with the lowest failing rank's
 * message, which names that rank and host when there is more than one. */
err_t comm_agree(comm_t *comm, err_t mine, const char *what);

#endif
