/* SPDX-License-Identifier: MIT */
/* Shared by the files of the `mpi` communicator. Private to src/cluster/comm/mpi. */
#ifndef CLUSTER_COMM_MPI_IMPL_H
#define CLUSTER_COMM_MPI_IMPL_H

#include <mpi.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/process.h"
#include "cluster/comm/collective.h"
#include "cluster/comm/gradients.h"
#include "cluster/hosts/topo.h"
#include "cluster/watch/side_channel.h"
#include "cluster/watch/watchdog.h"

/* ---- The wrapper around every MPI call ----
 * E_MPI(MPI_Barrier(comm), "MPI_Barrier") returns from the caller with a message if the call failed. MPI_ERRORS_RETURN
 * must be set on the communicator or window. */
/* Errors without a specific class come from the transport: a peer or the path to it is gone. They are
 * ERR_PEER: a restart may help. Specific errors (memory, arguments, windows) would occur again:
 * ERR_SYSTEM. */
static inline err_t mpi_check(int status, const char *what)
{
    if (status == MPI_SUCCESS) return ERR_OK;
    int error_class = MPI_ERR_UNKNOWN, n = 0;
    char text[MPI_MAX_ERROR_STRING] = "unknown error";
    MPI_Error_class(status, &error_class);
    MPI_Error_string(status, text, &n);
    switch (error_class) {
    case MPI_ERR_OTHER:
    case MPI_ERR_INTERN:
    case MPI_ERR_UNKNOWN:
    case MPI_ERR_IN_STATUS:
        RAISE(ERR_PEER, "%s failed: %s; a peer or the network to it was lost", what, text);
    default:
        RAISE(ERR_SYSTEM, "%s failed: %s", what, text);
    }
}

#define E_MPI(call, what) TRY(mpi_check((call), (what)))

/* Bytes per MPI call: counts are int, and longer calls are not faster. */
enum { MPI_CHUNK_BYTES = 1 << 25 };

/* ---- Memory shared by the ranks of a host, through MPI windows: shared_memory.c ---- */
/* The job's communicators: all ranks, and those of this host in order of topo_t.local_rank. */
typedef struct shared_ranks {
    MPI_Comm world, host;
    const topo_t *topo;
} shared_ranks_t;

typedef struct shared_window {
    MPI_Win win;
    char *own;      /* this rank's part: page-aligned, zeroed, its pages allocated */
    size_t n_bytes; /* size of this part */
} shared_window_t;

/* The reason for a missing window: the named host has not enough room or, if `enough`, MPI could not create
 * it. */
typedef struct shared_room {
    bool enough;
    int64_t free_bytes, need_bytes;
    char host[TOPO_HOST_MAX];
    char folder[256]; /* or "the file size limit (ulimit -f)" */
} shared_room_t;

/* Collective over the job. Creates a window on each host, or none if one host has no room. Errors are MPI's.
 *
 *   n_bytes  this rank's part; may differ between ranks, and be 0 if another rank of the host has more
 *   ok       whether the windows exist; the same on all ranks
 *   room     the reason if not */
err_t shared_window_new(const shared_ranks_t *ranks, size_t n_bytes, shared_window_t *out, bool *ok,
                        shared_room_t *room);

/* Not collective, but all ranks of the host must have returned from shared_window_new. *out: the address, in
 * this process, of the part of a rank of this host. Its owner has allocated the pages; first use maps them here. */
err_t shared_window_part(const shared_window_t *window, int local_rank, char **out);

/* Collective over the host. */
err_t shared_window_free(shared_window_t *window);

/* ---- Gradients in host memory: host.c ---- */
/* Allreduce in memory shared by the ranks of a host, and slice by slice across several hosts. Each rank sums
 * its slice over the parts of all ranks and writes the sum into all of them, without intermediate copies.
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

/* MPI_Allreduce in place, in as many calls as needed. */
err_t mpi_allreduce_on(MPI_Comm group, void *data, int64_t count, dtype_t dtype, MPI_Op op);

/* ---- The communicator ---- */
typedef struct mpi_impl {
    shared_ranks_t ranks;
    bool we_began;             /* MPI was initialized here and must be finalized */
    bool warned;               /* that gradient buffers are not shared */
    bool is_part;              /* made by comm_subset; uses the parent's watchdog */
    int ranks_per_host;        /* --ranks-per-host */
    const char *choice;        /* --allreduce */
    shared_window_t page;      /* the host's page: slots of the watchdog and of host_t */
    side_t *side;              /* of the watchdog; NULL: none */
    watchdog_slot_t *own_slot; /* if the ranks of the host share no page */
    host_t host;
    int *gather_counts; /* [2 × size], of mpi_allgatherv */
} mpi_impl_t;

/* Functions of comm_ops_t (open.c, for the table in mpi.c). */
err_t mpi_open(const comm_options_t *options, comm_t *comm);
err_t mpi_subset(comm_t *comm, int n, comm_t *out);
void mpi_close(comm_t *comm);
void mpi_describe(char *out, size_t n_bytes);

/* Gradients in host memory (host.c), and single collectives over MPI (collective.c). */
extern const gradient_ops_t gradients_host;
extern const collective_ops_t collective_mpi;

/* Collective over MPI_COMM_WORLD, after MPI_Init.
 *
 *   ranks_per_host  for tests: if > 0, each host is split into several with this many ranks each, the last
 *                   with the remainder */
err_t topo_discover(int ranks_per_host, topo_t *out);

#endif
