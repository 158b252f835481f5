/* Communicators: how the ranks of a job exchange data. One table of function pointers, chosen once.
 *
 * Every function marked Collective must be called by all ranks in the same order. Every wait has a deadline
 * (comm/watchdog.h): when it passes, the run names the collective, the ranks that did not arrive and what
 * each was last doing, and the job ends with ERR_PEER. `what` is a constant string that names the call to
 * people. */
#ifndef COMM_COMM_H
#define COMM_COMM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "cluster/topo.h"
#include "tensor/dtype.h"

typedef enum comm_op { COMM_SUM, COMM_MAX, COMM_MIN } comm_op_t;

/* One size of a shared buffer's allreduce, measured when the buffer was made: seconds through memory (the
 * host's own, see comm/host.h) and through MPI, and which was chosen. The same on all ranks. */
typedef struct comm_timing {
    int64_t n_bytes;
    double host_sec, mpi_sec;
    bool by_host;
} comm_timing_t;

enum { COMM_MAX_TIMINGS = 10 };

/* A buffer that a communicator handed out, possibly in memory that the ranks of a host share. */
typedef struct comm_buffer {
    void *data; /* this rank's part; 64-byte aligned, zeroed; NULL when it is on a GPU */
    void *device; /* with comm_on_device: this rank's part in its GPU's memory, zeroed; else NULL */
    size_t n_bytes;
    int64_t n_exact;                         /* comm_buffer_set_exact's */
    bool shared;                             /* in host-shared memory */
    void *owner;                             /* the communicator's own */
    bool by_host;                            /* the choice where there are no timings */
    int n_timings;                           /* 0: nothing to choose from, or not asked to choose */
    comm_timing_t timings[COMM_MAX_TIMINGS]; /* ascending sizes; each holds up to the next */
} comm_buffer_t;

typedef struct comm comm_t;

typedef struct comm_ops {
    const char *name; /* "self", "mpi", "nccl" */
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

typedef struct comm_options {
    /* "auto", "self", "mpi" or "nccl"; auto: mpi under a launcher, else self. nccl is mpi, but for gradients on
     * GPUs (comm_use_device). */
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

/* The GPU of this rank, for comm_use_device. */
typedef struct comm_device {
    int index;        /* cudaSetDevice's */
    const char *uuid; /* the same for two ranks that share a GPU */
    const char *name, *pci;
    void *stream; /* cudaStream_t: gradients are made and used in its order */
    /* To bfloat16 and back on a stream, see backend_t; for gradients that travel so. */
    err_t (*narrow)(const float *from, uint16_t *to, int64_t n, void *stream);
    err_t (*widen)(const uint16_t *from, float *to, int64_t n, void *stream);
} comm_device_t;

struct comm {
    const comm_ops_t *ops;
    int rank, size;
    topo_t topo;
    err_t agreed; /* what the last comm_agree returned: an error that every rank knows of */
    void *impl;
    comm_options_t options;
    struct nccl *nccl; /* what sums gradients on GPUs; NULL: they are summed in host memory */
    struct comm_gpu *gpus; /* [size], see comm/device.h; NULL: no GPUs */
};

/* Names for --comm and --allreduce, NULL-terminated. */
extern const char *const comm_names[], *const comm_allreduce_names[];

/* Collective. Initialises MPI where the chosen communicator needs it (MPI_THREAD_FUNNELED) and starts the
 * watchdog. ERR_USAGE when the choice can't be had (self with several ranks; nccl in a build without it;
 * allreduce host where no two ranks share memory). */
err_t comm_open(const comm_options_t *options, comm_t **out);

/* Collective, after comm_open and before any buffer, by ranks that compute on GPUs, all of them. Two ranks on
 * one GPU are ERR_USAGE unless the options' share_gpu says so; GPUs that differ are warned of. Gradient buffers
 * then lie on the GPUs and are summed by NCCL, where the options choose it: `nccl`, or `auto` when no GPU is
 * shared. Otherwise everything stays as it was, and who uses a buffer copies it to host memory and back.
 * ERR_USAGE for wire_bf16 where MPI sums. ERR_PEER naming the hosts that did not arrive when NCCL does not come up
 * in time. More in comm/device.h. */
err_t comm_use_device(comm_t *comm, const comm_device_t *device);

/* Whether buffers to come lie on the GPUs. */
bool comm_on_device(const comm_t *comm);

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

/* Collective. Memory for gradients: shared by the ranks of a host where that can be had (/dev/shm has room on
 * every host), otherwise private with one warning. */
err_t comm_buffer_new(comm_t *comm, size_t n_bytes, comm_buffer_t *out);
/* Collective. Sums the first `count` floats of every rank's buffer into all of them, in place; all ranks get
 * the same bits. The order of summation depends on the number of ranks and on who sums: with two ranks it
 * makes no difference, with more the last bit may. */
err_t comm_buffer_allreduce(comm_t *comm, comm_buffer_t *buffer, int64_t count, const char *what);

/* Collective, for buffers on a GPU. The sum in pieces: comm_buffer_begin starts summing floats
 * [offset, offset + count) as soon as the device's stream has come so far, beside what is given to the stream
 * afterwards; comm_buffer_finish makes the stream wait for all pieces begun. Neither waits on the host.
 * comm_buffer_allreduce is both in one. The last n_exact floats of the buffer (comm_buffer_set_exact) are
 * never rounded. */
err_t comm_buffer_begin(comm_t *comm, comm_buffer_t *buffer, int64_t offset, int64_t count);
err_t comm_buffer_finish(comm_t *comm, comm_buffer_t *buffer);

/* Not collective, after comm_buffer_new: how many floats at the end of the buffer are summed as they are even
 * where gradients travel rounded. 0 at first. */
void comm_buffer_set_exact(comm_buffer_t *buffer, int64_t n_exact);

/* Whether comm_buffer_allreduce of `count` floats goes through the host's memory. The same on all ranks. */
bool comm_buffer_by_host(const comm_buffer_t *buffer, int64_t count);

void comm_buffer_free(comm_t *comm, comm_buffer_t *buffer); /* Collective */

#endif
