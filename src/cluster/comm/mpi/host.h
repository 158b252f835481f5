/* SPDX-License-Identifier: MIT */
/* Allreduce among the ranks of one host (and, slice by slice, of several hosts) in shared memory. Nothing is
 * copied: each rank sums its slice over all parts and writes the sum into all of them. Private to
 * src/cluster/comm.
 *
 * Each element is summed completely by one rank, in the order of local ranks, and copied: all ranks get the
 * same bits, whatever the timing. With several hosts, the ranks of a slice then add their hosts' sums by
 * MPI_Allreduce, and each writes the result into the parts of its host; there are as many slices as the
 * smallest host has ranks.
 *
 * Memory order. A barrier is a counter per rank on its own cache line. Only that rank writes it, with
 * release; the others wait, with acquire, until it has reached the number of the barrier. So everything that
 * a rank stored before a barrier is visible to all ranks after it.
 *
 *   own part filled → barrier A → slices summed and written → barrier B → own part read and filled again
 *
 * Between A and B only one rank touches an element, the owner of its slice (slices end on cache lines);
 * before A and after B only the owner of the part does. Counters only grow, so nothing is reset, and a rank
 * that is one barrier ahead causes no confusion: it cannot be two ahead.
 *
 * A short message takes one synchronization instead of two: each rank puts its values into its mailbox, marks
 * it with the message number (release), waits for the others' marks (acquire) and sums all mailboxes itself,
 * in the same order. Each rank has two mailboxes, used alternately: message k + 2 reuses the mailbox of k,
 * and is written after k + 1 has arrived from all ranks, which each sent after reading all of k. */
#ifndef CLUSTER_COMM_MPI_HOST_H
#define CLUSTER_COMM_MPI_HOST_H

#include <mpi.h>
#include <stdatomic.h>
#include <stdint.h>

#include "base/err.h"

/* A pair of cache lines: x86 prefetches the neighbouring line. */
enum { HOST_LINE = 128, HOST_MAIL_FLOATS = 510 };

/* n_spins if every rank has a core (about 0.1 ms on x86), and if ranks share cores. */
enum { HOST_SPINS = 2000, HOST_SPINS_SHARED = 20 };

typedef struct host_mail {
    _Alignas(HOST_LINE) atomic_ullong number; /* of the message in it */
    float values[HOST_MAIL_FLOATS];
} host_mail_t;

/* One rank's slot in the host's shared page. Initially zero. */
typedef struct host_slot {
    _Alignas(HOST_LINE) atomic_ullong arrived; /* barriers the rank has reached */
    host_mail_t mail[2];
} host_slot_t;

/* This rank's view; zeroed if the host shares no page. */
typedef struct host {
    host_slot_t *slots; /* one per local rank, shared; NULL: no host allreduce */
    int rank, size;     /* on the host */
    int n_slices;       /* slices, owned by ranks 0 … n_slices - 1 */
    int n_hosts;
    int n_spins;    /* spins of a wait before the first yield */
    MPI_Comm peers; /* several hosts: the ranks of this rank's slice; MPI_COMM_NULL if it has none */
    MPI_Comm ranks; /* ranks of the host, for MPI progress in a long wait */
    unsigned long long n_barriers, n_messages; /* so far */
} host_t;

/* Collective over all ranks of the job. Sums the first `count` floats of parts[0 … size - 1], the 64-byte
 * aligned arrays of the ranks, into all of them. The deadline is the watchdog's. */
err_t host_allreduce(host_t *host, float *const *parts, int64_t count);

#endif
