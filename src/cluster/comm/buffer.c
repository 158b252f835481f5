/* SPDX-License-Identifier: MIT */
/* Gradient buffers independent of the communicator: dispatch to NCCL, shared memory or MPI, each collective
 * under the watchdog. */
#include "cluster/comm/buffer.h"

#include "base/mem.h"
#include "cluster/comm/nccl_or_mpi.h"
#include "cluster/comm/watchdog.h"

err_t comm_private_buffer_new(comm_t *comm, size_t n_bytes, comm_buffer_t *out)
{
    (void)comm;
    void *data = NULL;
    TRY(mem_new(n_bytes, "the gradient buffer", &data));
    *out = (comm_buffer_t){.data = data, .n_bytes = n_bytes};
    return ERR_OK;
}

void comm_private_buffer_free(comm_t *comm, comm_buffer_t *buffer)
{
    (void)comm;
    mem_free(&buffer->data);
    *buffer = (comm_buffer_t){0};
}

err_t comm_buffer_new(comm_t *comm, size_t n_bytes, comm_buffer_t *out)
{
    static const char what[] = "creating gradient buffers";
    *out = (comm_buffer_t){0};
    if (comm->nccl) return comm_agree(comm, comm->nccl->ops->buffer_new(comm, n_bytes, out), what);
    watchdog_enter(what);
    err_t err = watchdog_leave_with(comm->ops->buffer_new(comm, n_bytes, out), what);
    return comm_agree(comm, err, what);
}

err_t comm_buffer_choose(comm_t *comm, comm_buffer_t *buffer, int64_t count)
{
    static const char what[] = "choosing the allreduce";
    if (!buffer->shared || !comm->ops->buffer_choose) return ERR_OK;
    watchdog_enter(what);
    return watchdog_leave_with(comm->ops->buffer_choose(comm, buffer, count), what);
}

static double shortest(const double *sec, int n)
{
    double least = sec[0];
    for (int i = 1; i < n; i++)
        if (sec[i] < least) least = sec[i];
    return least;
}

bool comm_prefers_host(const double *host_sec, const double *mpi_sec, int n)
{
    return shortest(host_sec, n) <= 1.25 * shortest(mpi_sec, n);
}

double comm_buffer_sec(const comm_buffer_t *buffer)
{
    return buffer->by_host ? buffer->timing.host_sec : buffer->timing.mpi_sec;
}

err_t comm_buffer_allreduce(comm_t *comm, comm_buffer_t *buffer, int64_t count, const char *what)
{
    ASSERT(count >= 0 && count <= (int64_t)(buffer->n_bytes / sizeof(float)));
    if (buffer->device) {
        TRY(comm_buffer_begin(comm, buffer, 0, count));
        return comm_buffer_finish(comm, buffer);
    }
    if (!buffer->shared) return comm_allreduce(comm, buffer->data, count, DTYPE_F32, COMM_SUM, what);
    watchdog_enter(what);
    return watchdog_leave_with(comm->ops->buffer_allreduce(comm, buffer, count), what);
}

void comm_buffer_free(comm_t *comm, comm_buffer_t *buffer)
{
    if (buffer->device) comm->nccl->ops->buffer_free(comm->nccl, buffer);
    if (!buffer->data) return;
    watchdog_enter("freeing the gradient buffers");
    comm->ops->buffer_free(comm, buffer);
    watchdog_leave();
}

err_t comm_buffer_begin(comm_t *comm, comm_buffer_t *buffer, int64_t offset, int64_t count)
{
    int64_t n = (int64_t)(buffer->n_bytes / sizeof(float));
    ASSERT(comm->nccl && buffer->device && offset >= 0 && count >= 0 && offset <= n - count);
    return count ? comm->nccl->ops->buffer_begin(comm->nccl, buffer, offset, count) : ERR_OK;
}

err_t comm_buffer_finish(comm_t *comm, comm_buffer_t *buffer)
{
    ASSERT(comm->nccl && buffer->device);
    return comm->nccl->ops->buffer_finish(comm->nccl, buffer);
}

void comm_buffer_set_exact(comm_buffer_t *buffer, int64_t n_exact)
{
    ASSERT(n_exact >= 0 && n_exact <= (int64_t)(buffer->n_bytes / sizeof(float)));
    buffer->n_exact = n_exact;
}
