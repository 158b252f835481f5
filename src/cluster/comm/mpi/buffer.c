/* SPDX-License-Identifier: MIT */
/* Gradient buffers of the `mpi` communicator: shared or private memory, and the choice, by measuring at
 * start, between the host allreduce of host.c and MPI_Allreduce. */
#include <string.h>

#include "base/clock.h"
#include "base/figure.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/stats.h"
#include "cluster/comm/buffer.h"
#include "cluster/comm/mpi/call.h"
#include "cluster/comm/mpi/impl.h"

/* A shared buffer's `owner`. */
typedef struct shared_buffer {
    shared_window_t window;
    float *parts[]; /* of the ranks of this host, in this process's address space */
} shared_buffer_t;

static void warn_private(mpi_impl_t *impl, const shared_room_t *room)
{
    if (impl->warned) return;
    impl->warned = true;
    if (room->enough)
        log_warn("gradient buffers are private, which makes the gradient exchange slower: MPI could not "
                 "allocate shared memory in %s on every host",
                 room->folder);
    else
        log_warn(
            "gradient buffers are private, which makes the gradient exchange slower: %s on %s lacks %s of the "
            "%s that its ranks need (docker: --shm-size)",
            room->folder, room->host, figure_bytes((double)(room->need_bytes - room->free_bytes)).text,
            figure_bytes((double)room->need_bytes).text);
}

static err_t sum_by(comm_t *comm, comm_buffer_t *buffer, int64_t count, bool by_host)
{
    mpi_impl_t *impl = comm->impl;
    shared_buffer_t *shared = buffer->owner;
    if (by_host) return host_allreduce(&impl->host, shared->parts, count);
    return mpi_allreduce_on(impl->ranks.world, buffer->data, count, DTYPE_F32, MPI_SUM);
}

enum { MAX_CALLS = 9 };

static int calls_at(int64_t n_bytes)
{
    return n_bytes <= 1 << 16 ? MAX_CALLS : 3;
}

/* Median seconds of both algorithms over a few alternating calls after a warm-up. A zeroed buffer
 * stays zero. */
static err_t measure_size(comm_t *comm, comm_buffer_t *buffer, comm_timing_t *out)
{
    double sec[2][MAX_CALLS];
    int n_calls = calls_at(out->n_bytes);
    for (int i = -1; i < n_calls; i++)
        for (int by_host = 0; by_host < 2; by_host++) {
            double start = clock_sec();
            TRY(sum_by(comm, buffer, out->n_bytes / (int64_t)sizeof(float), by_host));
            if (i >= 0) sec[by_host][i] = clock_sec() - start;
        }
    out->mpi_sec = stats_median(sec[0], n_calls);
    out->host_sec = stats_median(sec[1], n_calls);
    /* Near a tie always choose the same, because the last bit depends on the order of summation. */
    out->by_host = out->host_sec <= 1.25 * out->mpi_sec;
    return ERR_OK;
}

/* Collective. Measures sizes from a cache line up to the buffer's or until the time is used up; rank 0's
 * clock decides. */
static err_t measure_sizes(comm_t *comm, comm_buffer_t *buffer)
{
    enum { FIRST_BYTES = 64, GROWTH = 4 };
    static const double budget_sec = 0.05;
    mpi_impl_t *impl = comm->impl;
    double start = clock_sec();
    int more = true;
    for (int64_t n_bytes = FIRST_BYTES; more && n_bytes <= (int64_t)buffer->n_bytes; n_bytes *= GROWTH) {
        comm_timing_t *timing = &buffer->timings[buffer->n_timings++];
        timing->n_bytes = n_bytes;
        TRY(measure_size(comm, buffer, timing));
        /* Estimated from the medians: a single call on a busy machine says nothing about the next size. */
        double next_sec = GROWTH * (1 + calls_at(GROWTH * n_bytes)) * (timing->host_sec + timing->mpi_sec);
        more = buffer->n_timings < COMM_MAX_TIMINGS && clock_sec() - start + next_sec < budget_sec;
        E_MPI(MPI_Bcast(timing, sizeof *timing, MPI_BYTE, 0, impl->ranks.world), "MPI_Bcast");
        E_MPI(MPI_Bcast(&more, 1, MPI_INT, 0, impl->ranks.world), "MPI_Bcast");
    }
    return ERR_OK;
}

/* Collective over the job. */
static err_t share_buffer(comm_t *comm, const shared_window_t *window, size_t n_bytes, comm_buffer_t *out)
{
    mpi_impl_t *impl = comm->impl;
    int n = comm->topo.local_size;
    shared_buffer_t *shared = NULL;
    TRY(mem_new(sizeof *shared + (size_t)n * sizeof shared->parts[0], "a shared gradient buffer", &shared));
    shared->window = *window;
    *out = (comm_buffer_t){.data = window->own, .n_bytes = n_bytes, .shared = true, .owner = shared};
    if (!impl->host.slots) return ERR_OK;
    for (int r = 0; r < n; r++) {
        char *part;
        TRY(shared_window_part(window, r, n_bytes, &part));
        shared->parts[r] = (float *)(void *)part;
    }
    out->by_host = strcmp(impl->choice, "mpi") != 0;
    return strcmp(impl->choice, "auto") == 0 ? measure_sizes(comm, out) : ERR_OK;
}

err_t mpi_buffer_new(comm_t *comm, size_t n_bytes, comm_buffer_t *out)
{
    mpi_impl_t *impl = comm->impl;
    /* No host has two ranks. */
    if (comm->topo.max_local_size == 1) return comm_private_buffer_new(comm, n_bytes, out);
    shared_room_t room;
    shared_window_t window;
    bool ok;
    TRY(shared_window_new(&impl->ranks, n_bytes ? n_bytes : 1, &window, &ok, &room));
    if (ok) return share_buffer(comm, &window, n_bytes, out);
    if (strcmp(impl->choice, "host") == 0)
        RAISE(ERR_SYSTEM,
              "--allreduce host is not available: %s on %s has no room for the gradient buffers of its ranks "
              "(docker: --shm-size); make room, or use --allreduce auto",
              room.folder, room.host);
    warn_private(impl, &room);
    return comm_private_buffer_new(comm, n_bytes, out);
}

err_t mpi_buffer_allreduce(comm_t *comm, comm_buffer_t *buffer, int64_t count)
{
    return sum_by(comm, buffer, count, comm_buffer_by_host(buffer, count));
}

void mpi_buffer_free(comm_t *comm, comm_buffer_t *buffer)
{
    if (!buffer->shared) {
        comm_private_buffer_free(comm, buffer);
        return;
    }
    shared_buffer_t *shared = buffer->owner;
    if (shared_window_free(&shared->window) != ERR_OK)
        log_warn("cannot free a gradient buffer: %s", err_message());
    mem_free(&shared);
    *buffer = (comm_buffer_t){0};
}
