/* SPDX-License-Identifier: MIT */
/* Gradients in host memory: shared or private buffers, and the measured choice between the host allreduce of
 * host.c and MPI_Allreduce. */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/figure.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/sim.h"
#include "cluster/comm/buffer.h"
#include "cluster/comm/mpi/call.h"
#include "cluster/comm/mpi/impl.h"

/* A shared buffer's `owner`. */
typedef struct shared_buffer {
    shared_window_t window;
    float **piece;  /* of a sum: the same floats of all parts */
    float *parts[]; /* of the ranks of this host, in this process's address space; twice, for `piece` */
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

static err_t sum_by(comm_t *comm, comm_buffer_t *buffer, int64_t offset, int64_t count, bool by_host)
{
    mpi_impl_t *impl = comm->impl;
    shared_buffer_t *shared = buffer->owner;
    if (!by_host)
        return mpi_allreduce_on(impl->ranks.world, (float *)buffer->data + offset, count, DTYPE_F32, MPI_SUM);
    for (int r = 0; r < comm->topo.local_size; r++) shared->piece[r] = shared->parts[r] + offset;
    return host_allreduce(&impl->host, shared->piece, count);
}

/* Collective over the job. */
static err_t share_buffer(comm_t *comm, const shared_window_t *window, size_t n_bytes, comm_buffer_t *out)
{
    mpi_impl_t *impl = comm->impl;
    int n = comm->topo.local_size;
    shared_buffer_t *shared = NULL;
    TRY(mem_new(sizeof *shared + 2 * (size_t)n * sizeof shared->parts[0], "a shared gradient buffer",
                &shared));
    shared->window = *window;
    shared->piece = shared->parts + n;
    *out = (comm_buffer_t){
        .ops = &gradients_host, .data = window->own, .n_bytes = n_bytes, .shared = true, .owner = shared};
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
    TRY(sum_by(comm, buffer, 0, count, true));
    *host_sec = clock_sec() - start;
    start = clock_sec();
    TRY(sum_by(comm, buffer, 0, count, false));
    *mpi_sec = clock_sec() - start;
    return ERR_OK;
}

/* Alternates after a warm-up; rank 0's clock decides. */
static err_t host_choose(comm_t *comm, comm_buffer_t *buffer, int64_t count)
{
    enum { MIN_CALLS = 5, MAX_CALLS = 50 };
    static const double budget_sec = 0.3;
    mpi_impl_t *impl = comm->impl;
    const shared_buffer_t *shared = buffer->owner;
    double host_sec[MAX_CALLS], mpi_sec[MAX_CALLS], start = clock_sec();
    int n = 0, more = true;
    if (!impl->host.slots || !shared || count == 0 || strcmp(impl->choice, "auto") != 0) return ERR_OK;
    for (int i = 0; i < sim_warm_ups(1); i++) TRY(time_both(comm, buffer, count, host_sec, mpi_sec));
    for (; more; n++) {
        TRY(time_both(comm, buffer, count, &host_sec[n], &mpi_sec[n]));
        more = n + 1 < sim_repeats(MIN_CALLS) ||
               (n + 1 < sim_repeats(MAX_CALLS) && clock_sec() - start < budget_sec);
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

static err_t host_new(comm_t *comm, size_t n_bytes, comm_buffer_t *out)
{
    mpi_impl_t *impl = comm->impl;
    /* No host has two ranks. */
    if (comm->topo.max_local_size == 1) return gradients_private.buffer_new(comm, n_bytes, out);
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
    return gradients_private.buffer_new(comm, n_bytes, out);
}

static err_t host_begin(comm_t *comm, comm_buffer_t *buffer, int64_t offset, int64_t count)
{
    return sum_by(comm, buffer, offset, count, buffer->by_host);
}

static void host_free(comm_t *comm, comm_buffer_t *buffer)
{
    (void)comm;
    shared_buffer_t *shared = buffer->owner;
    if (shared_window_free(&shared->window) != ERR_OK)
        log_warn("cannot free a gradient buffer: %s", err_message());
    mem_free(&shared);
    *buffer = (comm_buffer_t){0};
}

static void host_describe(const comm_t *comm, char *out, size_t n_bytes)
{
    if (comm->size == 1)
        gradients_private.describe(comm, out, n_bytes);
    else
        snprintf(out, n_bytes, "MPI %s host memory", comm->gpus ? "through pinned" : "in");
}

/* The host allreduce by itself, for benchmarks. */
static err_t single_open(comm_t *comm, int64_t n_bytes, comm_buffer_t *buffer)
{
    const char *why = NULL;
    TRY(comm_buffer_new_by(comm, &gradients_host, (size_t)n_bytes, buffer));
    if (!buffer->shared)
        why = "no two ranks share memory (each rank is on a separate host, or /dev/shm is full)";
    else if (!buffer->by_host)
        why = "--allreduce mpi rules it out";
    if (!why) return ERR_OK;
    err_raise(ERR_USAGE, __FILE__, __LINE__, "--communicator host is not available: %s", why);
    return comm_agree(comm, ERR_USAGE, "allocating the shared buffer");
}

static err_t single_run(comm_t *comm, const collective_spec_t *spec, void *own)
{
    (void)own;
    return spec->count ? spec->buffer->ops->buffer_begin(comm, spec->buffer, 0, spec->count) : ERR_OK;
}

static void single_algorithm(const comm_t *comm, char *out, size_t n_bytes)
{
    char transport[96];
    bool several = comm->topo.n_hosts > 1;
    collective_transport(comm, transport, sizeof transport);
    snprintf(out, n_bytes, "host, shared buffer%s%s", several ? " + " : "", several ? transport : "");
}

static const collective_ops_t collective_host = {
    .name = "host",
    .title = "the host communicator",
    .limits = "the host communicator supports only in-place all_reduce of float with sum; drop the option or "
              "use --communicator mpi",
    .memory = COLLECTIVE_IN_BUFFER,
    .in_place = 1 << COLLECTIVE_ALL_REDUCE,
    .types = 1 << COLLECTIVE_FLOAT,
    .ops = 1 << COLLECTIVE_SUM,
    .open = single_open,
    .run = single_run,
    .algorithm = single_algorithm,
};

static const collective_ops_t *const singles[] = {&collective_mpi, &collective_host, NULL};

const gradient_ops_t gradients_host = {
    .name = "mpi",
    .buffer_new = host_new,
    .buffer_choose = host_choose,
    .buffer_begin = host_begin,
    .buffer_free = host_free,
    .singles = singles,
    .describe = host_describe,
};
