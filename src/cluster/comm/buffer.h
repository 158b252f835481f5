/* SPDX-License-Identifier: MIT */
/* Gradient buffers and their allreduce: in host memory, or in GPU memory with a library such as NCCL. */
#ifndef CLUSTER_COMM_BUFFER_H
#define CLUSTER_COMM_BUFFER_H

#include "cluster/comm/comm.h"

/* The allreduce of a shared buffer, measured by comm_buffer_choose: the shortest of its calls on rank 0. The
 * same on all ranks. */
typedef struct comm_timing {
    int64_t n_bytes; /* 0: not measured */
    double host_sec; /* through shared memory (cluster/comm/mpi/impl.h) */
    double mpi_sec;
} comm_timing_t;

/* How n floats are shared out among the ranks: cut into buckets, and each bucket into a slice for every rank, in rank
 * order. Slices begin at multiples of the grain and are equally long within a bucket, except that the end of the n floats
 * cuts off the last ones, which may be empty. */
typedef struct comm_slices {
    int64_t n, n_bucket, grain;
    int size; /* ranks; 0: not shared out */
} comm_slices_t;

/* Not collective. In host memory, there is one bucket.
 *
 *   n_bucket  about how many floats a bucket has on a GPU */
comm_slices_t comm_slices(const comm_t *comm, int64_t n, int64_t grain, int64_t n_bucket);
int64_t comm_slices_buckets(const comm_slices_t *slices);
/* Floats of a slice that is not cut off. */
int64_t comm_slices_length(const comm_slices_t *slices, int64_t bucket);
/* The slice of a rank: returns its floats. */
int64_t comm_slice(const comm_slices_t *slices, int64_t bucket, int rank, int64_t *first);
/* The rank that owns a float, and the end of its slice. */
int comm_slices_owner(const comm_slices_t *slices, int64_t at, int64_t *end);
/* n, rounded up to where the slices of the last bucket would end if none were cut off. */
int64_t comm_slices_padded(const comm_slices_t *slices);

/* A buffer of a communicator, possibly in memory shared by the ranks of a host. */
struct comm_buffer {
    const struct gradient_ops *ops; /* the table that made it; NULL: freed */
    void *data;                     /* this rank's part; 64-byte aligned, zeroed; NULL if it is on a GPU */
    void *device; /* with comm_on_device: this rank's part in GPU memory, zeroed; else NULL */
    size_t n_bytes;
    int64_t n_exact; /* see comm_buffer_set_exact */
    bool shared;     /* in host-shared memory */
    void *owner;     /* private to `ops` */
    bool by_host;    /* the choice: through shared memory */
    comm_timing_t timing;
    comm_slices_t slices; /* see comm_buffer_share */
    struct comm_buffer *weights;
};

/* Collective. Allocates memory for gradients: shared by the ranks of a host if /dev/shm has room on every
 * host, otherwise private, with one warning. */
err_t comm_buffer_new(comm_t *comm, size_t n_bytes, comm_buffer_t *out);
/* The same by one table. Private to src/cluster/comm. */
err_t comm_buffer_new_by(comm_t *comm, const struct gradient_ops *ops, size_t n_bytes, comm_buffer_t *out);
/* Collective. Sums the first `count` floats of all ranks' buffers, in place; all ranks get the same bits. The
 * order of summation depends on the number of ranks and on the algorithm: with more than two ranks, the last
 * bit may differ from one algorithm to another. */
err_t comm_buffer_allreduce(comm_t *comm, comm_buffer_t *buffer, int64_t count, const char *what);

/* Collective: the allreduce in pieces. On a GPU neither call blocks the host; in host memory both may.
 *
 *   comm_buffer_begin   starts summing floats [offset, offset + count) once the device's stream reaches this
 *                       point, concurrently with later work on the stream
 *   comm_buffer_finish  makes the stream, or in host memory the caller, wait for all pieces begun */
err_t comm_buffer_begin(comm_t *comm, comm_buffer_t *buffer, int64_t offset, int64_t count);
err_t comm_buffer_finish(comm_t *comm, comm_buffer_t *buffer);

/* Collective. From now on a sum of the whole buffer is a reduce-scatter: of the first slices.n floats, each rank gets the
 * sums of its own slices, and what the buffer holds there of the others is lost. Floats from comm_slices_padded on are summed
 * into all ranks as before. Pieces begin and end between buckets.
 *
 *   weights  another buffer, borrowed: what comm_buffer_gather works on. In host memory of comm_buffer_new and slices.n floats; on a
 *            GPU only its `device` is read, which has comm_slices_padded floats */
err_t comm_buffer_share(comm_t *comm, comm_buffer_t *buffer, comm_buffer_t *weights,
                        const comm_slices_t *slices);

/* Collective. An allgather: each rank has changed its own slices of the weights, and gets those of the others. In host memory
 * others may read a rank's slices until the next collective of any kind that waits for all ranks: it changes them only after one.
 * On a GPU, the device's stream waits instead of the host. */
err_t comm_buffer_gather(comm_t *comm, comm_buffer_t *buffer, const char *what);

/* Collective. Sums doubles of all ranks in place: in GPU memory with comm_on_device, where the device's stream waits instead of
 * the host. */
err_t comm_sum_doubles(comm_t *comm, double *data, int64_t n, const char *what);

/* Not collective, after comm_buffer_new. The last n_exact floats of the buffer, initially 0, are summed in
 * float32 even with --wire bf16. */
void comm_buffer_set_exact(comm_buffer_t *buffer, int64_t n_exact);

/* Collective. With --allreduce auto, measures both algorithms on the first `count` floats, which must be 0,
 * for some 0.3 s (longer if five calls take longer) and chooses the faster. Until then a shared buffer uses
 * the host's. Does nothing without a choice. */
err_t comm_buffer_choose(comm_t *comm, comm_buffer_t *buffer, int64_t count);

/* Not collective. Whether the host's allreduce is chosen, given both algorithms' n times: unless even its
 * shortest call is clearly longer than MPI's. Other load makes calls longer, never shorter, so that it hardly
 * changes the choice; near a tie the choice must not change, because the last bit may depend on it. */
bool comm_prefers_host(const double *host_sec, const double *mpi_sec, int n);

/* Not collective, from any thread. ERR_PEER once the library of the gradients knows of an error: sums that seem
 * finished may be wrong, so nothing may be written that depends on them. Its watcher ends the job. */
err_t comm_check_sums(comm_t *comm);

/* Not collective. Seconds of an allreduce as measured; 0: unknown. */
double comm_buffer_sec(const comm_buffer_t *buffer);

void comm_buffer_free(comm_t *comm, comm_buffer_t *buffer); /* Collective */

#endif
