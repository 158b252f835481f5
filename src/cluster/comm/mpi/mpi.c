/* SPDX-License-Identifier: MIT */
/* The communicator over MPI: plain blocking collectives and messages. Opening and closing are in open.c,
 * gradients in host.c. */
#include <string.h>

#include "base/clock.h"
#include "base/sim.h"
#include "cluster/comm/mpi/impl.h"

static err_t mpi_barrier(comm_t *comm)
{
    mpi_impl_t *impl = comm->impl;
    E_MPI(MPI_Barrier(impl->ranks.world), "MPI_Barrier");
    return ERR_OK;
}

/* Allreduces the highest watchdog sequence number while the ranks sleep. */
static err_t mpi_barrier_asleep(comm_t *comm)
{
    static const double nap_sec = 0.0005;
    mpi_impl_t *impl = comm->impl;
    long long sequence = watchdog_sequence();
    MPI_Request request;
    int done = false;
    if (sim_is_rank()) { /* simulated ranks sleep in every wait */
        E_MPI(MPI_Allreduce(MPI_IN_PLACE, &sequence, 1, MPI_LONG_LONG, MPI_MAX, impl->ranks.world),
              "MPI_Allreduce");
        watchdog_set_sequence(sequence);
        return ERR_OK;
    }
    E_MPI(MPI_Iallreduce(MPI_IN_PLACE, &sequence, 1, MPI_LONG_LONG, MPI_MAX, impl->ranks.world, &request),
          "MPI_Iallreduce");
    for (;;) {
        E_MPI(MPI_Test(&request, &done, MPI_STATUS_IGNORE), "MPI_Test");
        if (done) break;
        clock_sleep(nap_sec);
    }
    watchdog_set_sequence(sequence);
    return ERR_OK;
}

static err_t mpi_broadcast(comm_t *comm, void *data, int64_t n_bytes, int root)
{
    mpi_impl_t *impl = comm->impl;
    for (int64_t at = 0; at < n_bytes; at += MPI_CHUNK_BYTES) {
        int n = narrow_int(n_bytes - at < MPI_CHUNK_BYTES ? n_bytes - at : MPI_CHUNK_BYTES);
        E_MPI(MPI_Bcast((char *)data + at, n, MPI_BYTE, root, impl->ranks.world), "MPI_Bcast");
    }
    return ERR_OK;
}

static err_t mpi_allreduce(comm_t *comm, void *data, int64_t count, dtype_t dtype, comm_op_t op)
{
    mpi_impl_t *impl = comm->impl;
    MPI_Op mpi_op = op == COMM_SUM ? MPI_SUM : op == COMM_MAX ? MPI_MAX : MPI_MIN;
    return mpi_allreduce_on(impl->ranks.world, data, count, dtype, mpi_op);
}

static err_t mpi_allgather(comm_t *comm, const void *send, int64_t n_bytes, void *recv)
{
    mpi_impl_t *impl = comm->impl;
    if (n_bytes == 0) return ERR_OK;
    char *own = (char *)recv + comm->rank * n_bytes;
    if (n_bytes <= MPI_CHUNK_BYTES) {
        int n = narrow_int(n_bytes);
        const void *from = send == own ? MPI_IN_PLACE : send;
        E_MPI(MPI_Allgather(from, n, MPI_BYTE, recv, n, MPI_BYTE, impl->ranks.world), "MPI_Allgather");
        return ERR_OK;
    }
    memmove(own, send, (size_t)n_bytes);
    for (int r = 0; r < comm->size; r++) TRY(mpi_broadcast(comm, (char *)recv + r * n_bytes, n_bytes, r));
    return ERR_OK;
}

/* One call for each stretch of MPI_CHUNK_BYTES of recv: what it holds of each rank's piece. */
static err_t mpi_allgatherv(comm_t *comm, const void *send, const int64_t *n_bytes, void *recv)
{
    mpi_impl_t *impl = comm->impl;
    int64_t total = 0, own_start = 0;
    int *counts = impl->gather_counts, *at = counts + comm->size;
    for (int r = 0; r < comm->size; r++) {
        if (r == comm->rank) own_start = total;
        total += n_bytes[r];
    }
    bool in_place = send == (char *)recv + own_start;
    for (int64_t first = 0; first < total; first += MPI_CHUNK_BYTES) {
        int64_t start = 0;
        const char *from = send;
        for (int r = 0; r < comm->size; start += n_bytes[r++]) {
            int64_t lowest = start > first ? start : first, end = start + n_bytes[r];
            if (end > first + MPI_CHUNK_BYTES) end = first + MPI_CHUNK_BYTES;
            counts[r] = end > lowest ? narrow_int(end - lowest) : 0;
            at[r] = counts[r] ? narrow_int(lowest - first) : 0;
            if (r == comm->rank && counts[r]) from += lowest - start;
        }
        E_MPI(MPI_Allgatherv(in_place ? MPI_IN_PLACE : from, counts[comm->rank], MPI_BYTE,
                             (char *)recv + first, counts, at, MPI_BYTE, impl->ranks.world),
              "MPI_Allgatherv");
    }
    return ERR_OK;
}

static err_t mpi_alltoall(comm_t *comm, const void *send, int64_t n_bytes, void *recv)
{
    mpi_impl_t *impl = comm->impl;
    int n = narrow_int(n_bytes);
    E_MPI(MPI_Alltoall(send, n, MPI_BYTE, recv, n, MPI_BYTE, impl->ranks.world), "MPI_Alltoall");
    return ERR_OK;
}

static err_t mpi_send(comm_t *comm, const void *data, int64_t n_bytes, int to)
{
    mpi_impl_t *impl = comm->impl;
    E_MPI(MPI_Send(data, narrow_int(n_bytes), MPI_BYTE, to, 0, impl->ranks.world), "MPI_Send");
    return ERR_OK;
}

static err_t mpi_receive(comm_t *comm, void *data, int64_t n_bytes, int from)
{
    mpi_impl_t *impl = comm->impl;
    E_MPI(MPI_Recv(data, narrow_int(n_bytes), MPI_BYTE, from, 0, impl->ranks.world, MPI_STATUS_IGNORE),
          "MPI_Recv");
    return ERR_OK;
}

const comm_ops_t comm_mpi = {
    .name = "mpi",
    .gradients = &gradients_host,
    .open = mpi_open,
    .barrier = mpi_barrier,
    .barrier_asleep = mpi_barrier_asleep,
    .subset = mpi_subset,
    .broadcast = mpi_broadcast,
    .allreduce = mpi_allreduce,
    .allgather = mpi_allgather,
    .allgatherv = mpi_allgatherv,
    .alltoall = mpi_alltoall,
    .send = mpi_send,
    .receive = mpi_receive,
    .describe = mpi_describe,
    .close = mpi_close,
};
