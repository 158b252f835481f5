/* The allreduce of the ranks of one host (and, slice by slice, of several hosts) on memory that they share.
 * Nothing is copied: each rank sums its slice over all parts and writes the sum into all of them. Private to
 * src/cluster/comm.
 *
 * The whole sum of an element is formed by one rank, in the order of local ranks, and copied: every rank has
 * the same bits, whatever the timing. With several hosts the ranks of one slice then add their hosts' sums by
 * MPI_Allreduce, and each writes the result into the parts of its host; there are as many slices as the
 * smallest host has ranks.
 *
 * Why the memory order is right. A barrier is a counter per rank on a cache line of its own; only that rank
 * writes it, with release, and the others wait until it has reached the number of the barrier, with acquire.
 * So whatever a rank stored before a barrier is seen by every rank behind it.
 *     own part filled → barrier A → slices summed and written → barrier B → own part read and filled again
 * Between A and B an element is touched by one rank alone, the owner of its slice (cut on cache lines);
 * before A and after B by the part's owner alone. Counters only grow, so nothing is ever reset, and a rank
 * that is a barrier ahead is not mistaken: it can't be two ahead.
 *
 * A short message takes one way instead of two: each rank puts its values into its mailbox, marks it with the
 * number of the message (release), waits for the others' marks (acquire) and sums all the mailboxes itself,
 * in the same order. There are two mailboxes a rank, used in turn: message k + 2 goes where k was, and is
 * written after everybody's k + 1 has arrived, which each sent after it had read all of k. */
#ifndef CLUSTER_COMM_MPI_HOST_H
#define CLUSTER_COMM_MPI_HOST_H

#include <mpi.h>
#include <stdatomic.h>
#include <stdint.h>

#include "base/err.h"

/* Cache lines in pairs: the prefetcher of x86 fetches the neighbour too. */
enum { HOST_LINE = 128, HOST_MAIL_FLOATS = 510 };

/* n_spins where every rank has a core (about 0.1 ms on x86), and where ranks share cores. */
enum { HOST_SPINS = 2000, HOST_SPINS_SHARED = 20 };

typedef struct host_mail {
    _Alignas(HOST_LINE) atomic_ullong number; /* of the message that lies in it */
    float values[HOST_MAIL_FLOATS];
} host_mail_t;

/* One rank's place in the host's shared page. All zero at the start. */
typedef struct host_slot {
    _Alignas(HOST_LINE) atomic_ullong arrived; /* barriers that the rank has come to */
    host_mail_t mail[2];
} host_slot_t;

/* This rank's view; zeroed where the host shares no page. */
typedef struct host {
    host_slot_t *slots; /* one a local rank, shared; NULL: no host allreduce */
    int rank, size;     /* on the host */
    int n_slices;       /* of ranks 0 … n_slices - 1 */
    int n_hosts;
    int n_spins;    /* of a wait, before the first yield */
    MPI_Comm peers; /* several hosts: the ranks of this rank's slice; MPI_COMM_NULL when it has none */
    MPI_Comm ranks; /* of the host: whose progress is looked after in a long wait */
    unsigned long long n_barriers, n_messages; /* so far */
} host_t;

/* Collective over all ranks of the job. Sums the first `count` floats of parts[0 … size - 1], which are the
 * ranks' own arrays, 64-byte aligned, into all of them. No deadline of its own: the watchdog's. */
err_t host_allreduce(host_t *host, float *const *parts, int64_t count);

#endif
