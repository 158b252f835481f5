/* Buffers whose sum over the ranks is what training waits for: gradients. What comm.h does not need. */
#ifndef CLUSTER_COMM_BUFFER_H
#define CLUSTER_COMM_BUFFER_H

#include "cluster/comm/comm.h"

/* One size of a shared buffer's allreduce, measured when the buffer was made: seconds through memory (the
 * host's own, see cluster/comm/mpi/host.h) and through MPI, and which was chosen. The same on all ranks. */
typedef struct comm_timing {
    int64_t n_bytes;
    double host_sec, mpi_sec;
    bool by_host;
} comm_timing_t;

enum { COMM_MAX_TIMINGS = 10 };

/* A buffer that a communicator handed out, possibly in memory that the ranks of a host share. */
struct comm_buffer {
    void *data;   /* this rank's part; 64-byte aligned, zeroed; NULL when it is on a GPU */
    void *device; /* with comm_on_device: this rank's part in its GPU's memory, zeroed; else NULL */
    size_t n_bytes;
    int64_t n_exact;                         /* comm_buffer_set_exact's */
    bool shared;                             /* in host-shared memory */
    void *owner;                             /* the communicator's own */
    bool by_host;                            /* the choice where there are no timings */
    int n_timings;                           /* 0: nothing to choose from, or not asked to choose */
    comm_timing_t timings[COMM_MAX_TIMINGS]; /* ascending sizes; each holds up to the next */
};

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

/* Private memory of this rank, as comm_ops_t's functions for buffers. */
err_t comm_private_buffer_new(comm_t *comm, size_t n_bytes, comm_buffer_t *out);
void comm_private_buffer_free(comm_t *comm, comm_buffer_t *buffer);

#endif
