/* SPDX-License-Identifier: MIT */
/* Gradient buffers of the `mpi` communicator: shared or private memory, and the measured choice between the
 * host allreduce of host.c and MPI_Allreduce. */
#include <string.h>

#include "base/clock.h"
#include "base/figure.h"
#include "base/log.h"
#include "base/mem.h"
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
    return ERR_OK;
}

/* Seconds of one call of each algorithm. A zeroed buffer stays zero. */
static err_t time_both(comm_t *comm, comm_buffer_t *buffer, int64_t count, double *host_sec, double *mpi_sec)
{
    double start = clock_sec();
    TRY(sum_by(comm, buffer, count, true));
    *host_sec = clock_sec() - start;
    start = clock_sec();
    TRY(sum_by(comm, buffer, count, false));
    *mpi_sec = clock_sec() - start;
    return ERR_OK;
}

/* Alternates after a warm-up; rank 0's clock decides. */
err_t mpi_buffer_choose(comm_t *comm, comm_buffer_t *buffer, int64_t count)
{
    enum { MIN_CALLS = 5, MAX_CALLS = 50 };
    static const double budget_sec = 0.3;
    mpi_impl_t *impl = comm->impl;
    const shared_buffer_t *shared = buffer->owner;
    double host_sec[MAX_CALLS], mpi_sec[MAX_CALLS], start = clock_sec();
    int n = 0, more = true;
    if (!impl->host.slots || !shared || count == 0 || strcmp(impl->choice, "auto") != 0) return ERR_OK;
    TRY(time_both(comm, buffer, count, &host_sec[0], &mpi_sec[0]));
    for (; more; n++) {
        TRY(time_both(comm, buffer, count, &host_sec[n], &mpi_sec[n]));
        more = n + 1 < MIN_CALLS || (n + 1 < MAX_CALLS && clock_sec() - start < budget_sec);
        E_MPI(MPI_Bcast(&more, 1, MPI_INT, 0, impl->ranks.world), "MPI_Bcast");
    }
    comm_timing_t *t = &buffer->timing;
    *t = (comm_timing_t){count * (int64_t)sizeof(float), host_sec[0], mpi_sec[0]};
    for (int i = 1; i < n; i++) {
        if (host_sec[i] < t->host_sec) t->host_sec = host_sec[i];
        if (mpi_sec[i] < t->mpi_sec) t->mpi_sec = mpi_sec[i];
    }
    buffer->by_host = comm_prefers_host(host_sec, mpi_sec, n);
    E_MPI(MPI_Bcast(t, sizeof *t, MPI_BYTE, 0, impl->ranks.world), "MPI_Bcast");
    E_MPI(MPI_Bcast(&buffer->by_host, sizeof buffer->by_host, MPI_BYTE, 0, impl->ranks.world), "MPI_Bcast");
    return ERR_OK;
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
    return sum_by(comm, buffer, count, buffer->by_host);
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
