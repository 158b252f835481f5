/* SPDX-License-Identifier: MIT */
/* Communicators: data exchange between the ranks of a job, through a table of function pointers chosen once.
 *
 * All ranks must call the functions marked Collective in the same order. Every wait has a deadline
 * (cluster/watch/watchdog.h): when it expires, a message names the collective, the ranks that did not arrive
 * and what each was last doing, and the job ends with ERR_PEER.
 *
 *   what  in all functions: a constant string that names the call in messages */
#ifndef CLUSTER_COMM_COMM_H
#define CLUSTER_COMM_COMM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/process.h"
#include "cluster/hosts/topo.h"
#include "compute/tensor/tensor.h"

typedef enum comm_op { COMM_SUM, COMM_MAX, COMM_MIN } comm_op_t;

typedef struct comm comm_t;
typedef struct comm_buffer comm_buffer_t; /* cluster/comm/buffer.h */

typedef struct comm_options {
    /* One of comm_names. auto: mpi under a launcher, else self. A library such as nccl: mpi, with gradients
     * summed by the library (cluster/comm/gradients.h). */
    const char *name;
    double timeout_sec;    /* deadline of every wait */
    double stall_sec;      /* warn of waits this long; 0: never */
    const char *allreduce; /* gradient allreduce: NULL or "auto", "host", "mpi" */
    bool share_gpu;        /* several ranks may use one GPU */
    bool nccl_register;    /* register gradient buffers with NCCL if it supports that */
    bool wire_bf16;        /* NCCL sums gradients rounded to bfloat16 */
    int ranks_per_host;    /* for tests: split hosts into groups of this size; 0: do not */
    /* Ends the job from any thread (main.c's MPI_Abort); must not return. */
    void (*abort_job)(err_t code);
} comm_options_t;

/* What every rank needs for its own messages; gradients have a table of their own. */
typedef struct comm_ops {
    const char *name;                     /* "self", "mpi" */
    const struct gradient_ops *gradients; /* sums them in host memory; its state is in comm_t.impl */
    /* Fills in a zeroed comm. On failure nothing stays allocated, but MPI stays initialized. */
    err_t (*open)(const comm_options_t *options, comm_t *comm);
    err_t (*barrier)(comm_t *comm);
    err_t (*barrier_asleep)(comm_t *comm);
    err_t (*subset)(comm_t *comm, int n, comm_t *out); /* n: from 2 to size */
    err_t (*broadcast)(comm_t *comm, void *data, int64_t n_bytes, int root);
    err_t (*allreduce)(comm_t *comm, void *data, int64_t count, dtype_t dtype, comm_op_t op);
    err_t (*allgather)(comm_t *comm, const void *send, int64_t n_bytes, void *recv);
    err_t (*allgatherv)(comm_t *comm, const void *send, const int64_t *n_bytes, void *recv);
    err_t (*alltoall)(comm_t *comm, const void *send, int64_t n_bytes, void *recv);
    /* A short message between two ranks. Both block until it is delivered. */
    err_t (*send)(comm_t *comm, const void *data, int64_t n_bytes, int to);
    err_t (*receive)(comm_t *comm, void *data, int64_t n_bytes, int from);
    void (*describe)(char *out, size_t n_bytes);
    void (*close)(comm_t *comm);
} comm_ops_t;

struct comm {
    const comm_ops_t *ops;
    int rank, size;
    topo_t topo;
    rank_place_t *places; /* [size] */
    err_t agreed;         /* result of the last comm_agree: an error that all ranks know */
    void *impl;
    comm_options_t options;
    const struct gradient_ops *gradients; /* sums gradients: ops->gradients, or a library's */
    void *library;                        /* the library's state */
    struct comm_gpu *gpus;                /* [size], see cluster/comm/device.h; NULL: no GPUs */
};

/* Names for --comm and --allreduce, NULL-terminated. */
extern const char *const comm_names[], *const comm_allreduce_names[];

/* Collective. Initializes MPI (MPI_THREAD_FUNNELED) if the communicator needs it, and starts the watchdog.
 * ERR_USAGE if the launcher started more ranks than MPI sees, or the choice is not available (self with several
 * ranks; nccl in a build without it; allreduce host if no two ranks share memory). If only a library does not come
 * up, *out is set all the same: close it. */
err_t comm_open(const comm_options_t *options, comm_t **out);

/* Not collective. ERR_USAGE if the launcher started more ranks than MPI sees: each would be a job of its own.
 *
 *   library  MPI's name and version, for the message */
err_t comm_check_launch(const launch_t *launch, int n_seen, const char *library);

/* Collective. Also finalizes MPI if comm_open initialized it. *comm may be NULL. */
void comm_close(comm_t **comm);

/* Collective. Creates a communicator of ranks 0 … n - 1 of `comm`; *out is NULL on other ranks. Close it
 * (Collective among its ranks) before `comm`. */
err_t comm_subset(comm_t *comm, int n, comm_t **out);
/* Not collective. Creates a communicator of this rank alone. */
err_t comm_alone(comm_t **out);

/* Not collective. The library that moves the data and its version, for the run record. */
void comm_describe(const comm_t *comm, char *out, size_t n_bytes);

/* Collective. */
err_t comm_barrier(comm_t *comm, const char *what);
/* Collective. A barrier that waits without using the CPU, up to a millisecond longer. It also gives all ranks
 * the same watchdog sequence number, after some of them have worked in a subset. */
err_t comm_barrier_asleep(comm_t *comm, const char *what);
err_t comm_broadcast(comm_t *comm, void *data, int64_t n_bytes, int root, const char *what);
/* Collective, in place, on elements of type F32, F64, I32 or I64. The order of summation may depend on the
 * number of ranks but not on timing. */
err_t comm_allreduce(comm_t *comm, void *data, int64_t count, dtype_t dtype, comm_op_t op, const char *what);
/* Collective. recv: size × n_bytes, in rank order. */
err_t comm_allgather(comm_t *comm, const void *send, int64_t n_bytes, void *recv, const char *what);
/* Collective. Pieces of different sizes: rank r's has n_bytes[r] bytes, which may be 0. recv: the pieces of
 * all ranks one after another, in rank order, of any total size. In place: send is this rank's piece in recv.
 *
 *   n_bytes  [size], the same on all ranks (comm_allgather) */
err_t comm_allgatherv(comm_t *comm, const void *send, const int64_t *n_bytes, void *recv, const char *what);

/* Collective. Piece r (n_bytes, up to 2 GiB) of send goes to rank r; recv holds the pieces of all ranks, in
 * rank order. */
err_t comm_alltoall(comm_t *comm, const void *send, int64_t n_bytes, void *recv, const char *what);

/* Collective. Makes the failure of one rank known to all; call it before the next collective after a step
 * that can fail on some ranks only. All ranks return the worst code with the message of the lowest failing
 * rank, prefixed with its rank and host unless all ranks have the same message.
 *
 *   mine  this rank's result; its message is err_message's */
err_t comm_agree(comm_t *comm, err_t mine, const char *what);

/* Collective. Rank 0 decides, everyone hears: its `data`, or its error as of comm_agree, in one broadcast.
 *
 *   mine     rank 0's result; ignored on the others
 *   n_bytes  up to COMM_DECISION_MAX */
enum { COMM_DECISION_MAX = 8192 };
err_t comm_decide(comm_t *comm, err_t mine, void *data, int64_t n_bytes, const char *what);

/* ---- Work that rank 0 does for all ----
 * It lists a folder or reads an index, and the others get the result as bytes, so that a network folder is read only
 * once. */

/* To be called repeatedly during long work; cheap. Stop the work if it returns an error. */
typedef err_t (*comm_alive_t)(void *context);

typedef struct comm_finding {
    const char *what; /* a constant string, such as "opening data" */
    void *context;
    /* On rank 0: does the work. May exceed the deadline of a wait if it keeps calling
     * alive(alive_context). */
    err_t (*find)(void *context, comm_alive_t alive, void *alive_context);
    /* On rank 0 after `find`, if there are other ranks: writes the result to a block from mem_new. */
    err_t (*save)(void *context, void **bytes, int64_t *n_bytes);
    /* On the others: reads a copy of the block, which they may keep by setting *bytes to NULL. */
    err_t (*restore)(void *context, void **bytes, int64_t n_bytes);
} comm_finding_t;

/* Collective. An error on one rank becomes an error on all, as with comm_agree; the caller then frees what
 * the context holds. */
err_t comm_share(comm_t *comm, const comm_finding_t *finding);

/* Collective. Broadcasts rank 0's block; where *block is NULL, it is allocated by mem_new. *n_bytes is read
 * on rank 0 and set on the others. */
err_t comm_broadcast_block(comm_t *comm, void **block, int64_t *n_bytes, const char *what);

/* ---- Clocks ----
 * Monotonic clocks start at arbitrary times, so those of two hosts cannot be compared until their offset is known. */

/* Collective. Measures the offset of rank 0's clock. Each rank asks rank 0 for the time repeatedly and uses
 * the shortest round trip: the answer is assumed to come from its middle, which is wrong by at most half the
 * round trip (Cristian, "Probabilistic clock synchronization", 1989).
 *
 *   clock       returns seconds
 *   offset_sec  to be added to this rank's clock; 0 on rank 0
 *   error_sec   largest possible error; 0 on rank 0 */
err_t comm_clock_offset(comm_t *comm, double (*clock)(void), double *offset_sec, double *error_sec);

/* An offset measured at some moment of this rank's clock. */
typedef struct comm_clock_mark {
    double at_sec, offset_sec;
} comm_clock_mark_t;

/* Not collective. Converts a time of this rank to rank 0's clock. Clocks drift, so the offset is interpolated
 * between two marks. */
double comm_clock_map(comm_clock_mark_t first, comm_clock_mark_t last, double sec);

#endif
