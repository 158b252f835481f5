/* SPDX-License-Identifier: MIT */
/* Single collectives for `dptrain bench comm`, with the collectives, types and operations of nccl-tests
 * (comm.h serves training). A call adds only a few stores for the watchdog to the library's own.
 *
 * Buffer sizes in elements, for n ranks and MPI's `count`:
 *
 *                    send        recv                          in place (send NULL): the input is in recv
 *   all_reduce       count       count                         all of it
 *   all_gather       count       n × count                     at rank × count
 *   reduce_scatter   n × count   count                         n × count; the result is at its start
 *   broadcast        root only   all but the root: count       all of it
 *   reduce           count       root only: count              all of it, on every rank
 *   gather           count       root only: n × count          at rank × count; the root's result is all of it
 *   scatter          root only:  count                         the root's is all of it; the result is at
 *                    n × count                                 rank × count
 *   hypercube        count       n × count                     at rank × count
 *   alltoall         n × count   n × count                     all of it
 *   alltoallv        n × count   n × count                     not in place; parts by collective_part, one after
 *                                                              another
 *   sendrecv         count       count                         all of it; to rank + 1, from rank - 1
 *   exchange         count       count                         all of it; with `peer`, both ways at once
 *
 * On a device (COLLECTIVE_ON_DEVICE) collective_run enqueues the call and returns; collective_wait waits for
 * all of them. In place, reduce_scatter's result is at rank × count. A broadcast also copies the root's input
 * to its recv.
 *
 * hypercube is an all_gather in log2 n steps, each between two ranks whose numbers differ by one bit; n is a power of
 * two.
 *
 * MPI counts with an int, so pieces above chunk_bytes take several calls. reduce_scatter then becomes one
 * reduction per rank, because its input cannot be divided otherwise. */
#ifndef CLUSTER_COMM_COLLECTIVE_H
#define CLUSTER_COMM_COLLECTIVE_H

#include "cluster/comm/comm.h"

typedef enum collective_kind {
    COLLECTIVE_ALL_REDUCE,
    COLLECTIVE_ALL_GATHER,
    COLLECTIVE_REDUCE_SCATTER,
    COLLECTIVE_BROADCAST,
    COLLECTIVE_REDUCE,
    COLLECTIVE_GATHER,
    COLLECTIVE_SCATTER,
    COLLECTIVE_HYPERCUBE,
    COLLECTIVE_ALLTOALL,
    COLLECTIVE_ALLTOALLV,
    COLLECTIVE_SENDRECV,
    COLLECTIVE_EXCHANGE,
    COLLECTIVE_KINDS,
} collective_kind_t;

typedef enum collective_type {
    COLLECTIVE_INT8,
    COLLECTIVE_UINT8,
    COLLECTIVE_INT32,
    COLLECTIVE_UINT32,
    COLLECTIVE_INT64,
    COLLECTIVE_UINT64,
    COLLECTIVE_FLOAT,
    COLLECTIVE_DOUBLE,
    COLLECTIVE_HALF,
    COLLECTIVE_BFLOAT16,
    COLLECTIVE_TYPES,
} collective_type_t;

typedef enum collective_op {
    COLLECTIVE_SUM,
    COLLECTIVE_PROD,
    COLLECTIVE_MAX,
    COLLECTIVE_MIN,
    COLLECTIVE_AVG, /* the sum divided by the number of ranks; of whole numbers towards zero */
    COLLECTIVE_OPS,
} collective_op_t;

/* Names as in nccl-tests. */
extern const char *const collective_type_names[COLLECTIVE_TYPES], *const collective_op_names[COLLECTIVE_OPS];

size_t collective_type_size(collective_type_t type);

/* Elements of an alltoallv that one of `size` ranks sends to another: in proportion to how far that is, counted upwards
 * from `from`, and none to itself; of size × count elements, rounded down to whole 16 bytes (nccl-tests,
 * src/alltoallv.cu, without its environment variables). */
int64_t collective_part(int64_t count, collective_type_t type, int from, int to, int size);

/* Where `send` and `recv` are. */
typedef enum collective_memory {
    COLLECTIVE_ON_HOST,
    COLLECTIVE_ON_DEVICE, /* in the memory of this rank's GPU */
    COLLECTIVE_IN_BUFFER, /* recv: the start of a gradient buffer in host memory, from collective_open */
} collective_memory_t;

typedef struct collective collective_t;
typedef struct collective_spec collective_spec_t;

/* A library's single collectives, or one way to run them; constant. Bit k of a mask stands for constant k of
 * its type: 1 << COLLECTIVE_ALL_REDUCE. */
typedef struct collective_ops {
    const char *name;   /* in options and records: "mpi", "host", "nccl" */
    const char *title;  /* in messages: "MPI" */
    const char *limits; /* for messages: what it does not offer, and what to do */
    collective_memory_t memory;
    unsigned out_of_place, in_place; /* masks of collective_kind_t */
    unsigned types;                  /* of collective_type_t */
    unsigned ops;                    /* of collective_op_t */
    /* The functions are private to src/cluster/comm; NULL: nothing to do. */
    err_t (*open)(comm_t *comm, int64_t n_bytes, comm_buffer_t *buffer);
    err_t (*prepare)(comm_t *comm, const collective_spec_t *spec, void **own); /* Not collective */
    err_t (*run)(comm_t *comm, const collective_spec_t *spec, void *own);
    err_t (*wait)(comm_t *comm, const collective_spec_t *spec);
    void (*release)(void *own); /* undoes `prepare`, even if it failed; own may be NULL */
    void (*describe)(const comm_t *comm, char *out, size_t n_bytes); /* NULL: comm_describe */
    void (*algorithm)(const comm_t *comm, char *out, size_t n_bytes);
} collective_ops_t;

enum { COLLECTIVE_MAX_OPS = 8 };

/* Not collective. What a communicator offers, the library that sums its gradients first. Returns how many. */
int collective_list(const comm_t *comm, const collective_ops_t *out[COLLECTIVE_MAX_OPS]);
/* The names that this program knows, in the order of --comm. Returns how many. */
int collective_names(const char *out[COLLECTIVE_MAX_OPS]);
/* By name, whether or not a communicator offers it; NULL: not in this build. */
const collective_ops_t *collective_find(const char *name);
/* What a communicator needs to offer a name: "GPUs and NCCL: --device cuda --comm nccl". */
const char *collective_needs(const char *name);

struct collective_spec {
    const collective_ops_t
        *by; /* which offers the collective; NULL: the communicator's plain one, in host memory */
    collective_kind_t kind;
    collective_type_t type;
    collective_op_t op; /* for all_reduce, reduce_scatter, reduce */
    int root;           /* for broadcast, reduce, gather, scatter */
    int peer;           /* for exchange; the rank itself: it does nothing */
    int64_t count;
    const void *send; /* NULL: in place */
    void *recv;
    comm_buffer_t *buffer; /* with COLLECTIVE_IN_BUFFER: recv is its data */
    int64_t chunk_bytes;   /* for tests; 0: 1 GiB */
    const char *what;      /* a constant string for messages */
};

/* Collective. Call it before the first collective by `ops`, which the communicator offers; may be repeated.
 * The communicator's close undoes it, except for the buffer.
 *
 *   buffer  with COLLECTIVE_IN_BUFFER: a new one of n_bytes, for the caller to free by comm_buffer_free, also
 *           after an error */
err_t collective_open(comm_t *comm, const collective_ops_t *ops, int64_t n_bytes, comm_buffer_t *buffer);

/* Not collective. The caller keeps owning the buffers. */
err_t collective_new(comm_t *comm, const collective_spec_t *spec, collective_t **out);
/* Collective, also for ranks that exchange nothing. With one rank the input is copied. */
err_t collective_run(const collective_t *collective);
/* Collective. Waits for runs on a device; otherwise returns at once. */
err_t collective_wait(const collective_t *collective);
void collective_free(collective_t **collective);

/* Not collective. The library behind a collective and its version, such as "Open MPI v4.1.4". */
void collective_library(const comm_t *comm, const collective_ops_t *ops, char *out, size_t n_bytes);
/* Not collective. Library and transport, as far as they are known: "mpi, shared memory (vader)",
 * "NCCL 2.28.9, P2P/CUMEM". */
void collective_algorithm(const comm_t *comm, const collective_ops_t *ops, char *out, size_t n_bytes);

/* Not collective. MPI's transport, as far as it can be detected, such as "shared memory (vader)" or "tcp". */
void collective_transport(const comm_t *comm, char *out, size_t n_bytes);

#endif
