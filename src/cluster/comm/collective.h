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
 *   alltoall         n × count   n × count                     all of it
 *   sendrecv         count       count                         all of it; to rank + 1, from rank - 1
 *   exchange         count       count                         all of it; with `peer`, both ways at once
 *
 * With on_device, NCCL runs the collective on buffers in this rank's device memory. collective_run then
 * enqueues the call and returns; collective_wait waits for all of them. In place, reduce_scatter's result is
 * at rank × count. alltoall, sendrecv and exchange send all messages at once and are out of place only. A
 * broadcast also copies the root's input to its recv.
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
    COLLECTIVE_ALLTOALL,
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
    COLLECTIVE_HALF, /* from here on: NCCL only */
    COLLECTIVE_BFLOAT16,
    COLLECTIVE_TYPES,
    COLLECTIVE_MPI_TYPES = COLLECTIVE_HALF,
} collective_type_t;

typedef enum collective_op {
    COLLECTIVE_SUM,
    COLLECTIVE_PROD,
    COLLECTIVE_MAX,
    COLLECTIVE_MIN,
    COLLECTIVE_OPS,
} collective_op_t;

/* Names as in nccl-tests. */
extern const char *const collective_type_names[COLLECTIVE_TYPES], *const collective_op_names[COLLECTIVE_OPS];

size_t collective_type_size(collective_type_t type);

typedef struct collective_spec {
    collective_kind_t kind;
    collective_type_t type;
    collective_op_t op; /* for all_reduce, reduce_scatter, reduce */
    int root;           /* for broadcast, reduce */
    int peer;           /* for exchange; the rank itself: it does nothing */
    int64_t count;
    const void *send; /* NULL: in place */
    void *recv;
    bool on_device;
    int64_t chunk_bytes; /* for tests; 0: 1 GiB */
    const char *what;    /* a constant string for messages */
} collective_spec_t;

typedef struct collective collective_t;

/* Collective, with comm_on_device. Call it before the first on_device collective; may be repeated. The
 * communicator's close undoes it. */
err_t collective_open_device(comm_t *comm);

/* Whether a collective can run in place. */
bool collective_in_place(collective_kind_t kind, bool on_device);

/* Not collective. The caller keeps owning the buffers. */
err_t collective_new(comm_t *comm, const collective_spec_t *spec, collective_t **out);
/* Collective, also for ranks that exchange nothing. With one rank the input is copied. */
err_t collective_run(const collective_t *collective);
/* Collective. Waits for on_device runs; otherwise returns at once. */
err_t collective_wait(const collective_t *collective);
void collective_free(collective_t **collective);

/* Not collective, with comm_on_device. NCCL's version and transport, such as "NCCL 2.28.9, P2P/CUMEM". */
void collective_device_transport(const comm_t *comm, char *out, size_t n_bytes);

/* Not collective. MPI's transport, as far as it can be detected, such as "shared memory (vader)" or "tcp". */
void collective_transport(const comm_t *comm, char *out, size_t n_bytes);

#endif
