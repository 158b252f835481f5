/* SPDX-License-Identifier: MIT */
/* Allreduce in memory shared by the ranks of a host, and slice by slice across several hosts. Each rank sums
 * its slice over the parts of all ranks and writes the sum into all of them, without intermediate copies.
 * Private to src/cluster/comm.
 *
 * One rank sums an element completely, in the order of local ranks, so all ranks get the same bits, whatever
 * the timing. With several hosts, the ranks of a slice then add their hosts' sums by MPI_Allreduce, and each
 * writes the result into the parts of its host; there are as many slices as the smallest host has ranks.
 *
 * Memory order. A barrier is a counter per rank on its own cache line. Only that rank writes it, with a
 * sequentially consistent store; the others wait, with acquire, until it has reached the barrier's number.
 * Everything that a rank stored before a barrier is therefore visible to all ranks after it.
 *
 *   own part filled → barrier A → slices summed and written → barrier B → own part read and filled again
 *
 * Between A and B only the owner of a slice touches its elements (slices end on cache lines); before A and
 * after B, only the owner of the part. Counters only grow and are never reset. A rank can be one barrier
 * ahead of another, but not two.
 *
 * A short message needs one synchronization instead of two: each rank stores its values in its mailbox, marks
 * it with the message number, waits for the others' marks (acquire) and sums all mailboxes itself,
 * in the same order. Each rank alternates between two mailboxes: message k + 2 reuses the mailbox of k. By
 * then message k + 1 has arrived from all ranks, and each of them sent it after reading all of k. */
#ifndef CLUSTER_COMM_MPI_HOST_H
#define CLUSTER_COMM_MPI_HOST_H

#include <mpi.h>
#include <stdatomic.h>
#include <stdint.h>

#include "base/err.h"
#include "base/process.h"

/* HOST_LINE: two cache lines, because x86 prefetches the neighbouring line. */
enum { HOST_LINE = 128, HOST_MAIL_FLOATS = 508 };

/* Spins of a wait before the rank sleeps: about 2 ms on x86 where every rank has a core, 50 us where other
 * processes compete for it, and 1 us where ranks do. */
enum { HOST_SPINS = 40000, HOST_SPINS_CONTENDED = 1000, HOST_SPINS_SHARED = 20 };

/* A number that only grows, stored by one rank and awaited by the others of its host. */
typedef struct host_counter {
    atomic_ullong value;
    atomic_uint n_sleepers; /* ranks that wait for it in the kernel */
} host_counter_t;

typedef struct host_mail {
    _Alignas(HOST_LINE) host_counter_t number; /* of the message in it */
    float values[HOST_MAIL_FLOATS];
} host_mail_t;

/* One rank's slot in the host's shared page. Initially zero. */
typedef struct host_slot {
    _Alignas(HOST_LINE) host_counter_t arrived; /* barriers the rank has reached */
    host_mail_t mail[2];
    _Alignas(HOST_LINE) atomic_bool competes; /* the rank competes for its CPU (base/process.h) */
} host_slot_t;

/* The host as seen by this rank; zeroed if its ranks share no page. */
typedef struct host {
    host_slot_t *slots; /* one per local rank, shared; NULL: no host allreduce */
    int rank, size;     /* on the host */
    int n_slices;       /* slices, owned by ranks 0 … n_slices - 1 */
    int n_hosts;
    bool shares_cores; /* there are more ranks on the host than cores */
    contention_t contention;
    MPI_Comm peers; /* several hosts: the ranks of this rank's slice; MPI_COMM_NULL if it has none */
    MPI_Comm ranks; /* ranks of the host, for MPI progress in a long wait */
    unsigned long long n_barriers, n_messages; /* so far */
} host_t;

/* Collective over all ranks of the job. Sums the first `count` floats of parts[0 … size - 1], the 64-byte
 * aligned arrays of the ranks, into all of them. The deadline is the watchdog's. */
err_t host_allreduce(host_t *host, float *const *parts, int64_t count);

#endif
