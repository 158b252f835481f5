/* SPDX-License-Identifier: MIT */
/* Gradient buffers: calls of the table that made a buffer, those that may wait under the watchdog; how a buffer is shared
 * out; and the table for the memory of one process. */
#include "cluster/comm/buffer.h"

#include <stdio.h>

#include "base/mem.h"
#include "cluster/comm/gradients.h"
#include "cluster/watch/watchdog.h"

static const char summing[] = "gradient allreduce";

err_t comm_buffer_new_by(comm_t *comm, const gradient_ops_t *ops, size_t n_bytes, comm_buffer_t *out)
{
    static const char what[] = "creating gradient buffers";
    *out = (comm_buffer_t){0};
    if (ops->on_device) return comm_agree(comm, ops->buffer_new(comm, n_bytes, out), what);
    watchdog_enter(what);
    err_t err = watchdog_leave_with(ops->buffer_new(comm, n_bytes, out), what);
    return comm_agree(comm, err, what);
}

err_t comm_buffer_new(comm_t *comm, size_t n_bytes, comm_buffer_t *out)
{
    return comm_buffer_new_by(comm, comm->gradients, n_bytes, out);
}

err_t comm_buffer_choose(comm_t *comm, comm_buffer_t *buffer, int64_t count)
{
    static const char what[] = "choosing the allreduce";
    if (!buffer->ops->buffer_choose) return ERR_OK;
    watchdog_enter(what);
    return watchdog_leave_with(buffer->ops->buffer_choose(comm, buffer, count), what);
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

/* On a device neither call waits, and the device has a watcher of its own. */
static err_t buffer_begin(comm_t *comm, comm_buffer_t *buffer, int64_t offset, int64_t count)
{
    return count ? buffer->ops->buffer_begin(comm, buffer, offset, count) : ERR_OK;
}

static err_t buffer_finish(comm_t *comm, comm_buffer_t *buffer)
{
    return buffer->ops->buffer_finish ? buffer->ops->buffer_finish(comm, buffer) : ERR_OK;
}

static err_t sum_whole(comm_t *comm, comm_buffer_t *buffer, int64_t count)
{
    TRY(buffer_begin(comm, buffer, 0, count));
    return buffer_finish(comm, buffer);
}

err_t comm_buffer_allreduce(comm_t *comm, comm_buffer_t *buffer, int64_t count, const char *what)
{
    ASSERT(count >= 0 && count <= (int64_t)(buffer->n_bytes / sizeof(float)));
    if (buffer->ops->on_device) return sum_whole(comm, buffer, count);
    watchdog_enter(what);
    return watchdog_leave_with(sum_whole(comm, buffer, count), what);
}

err_t comm_buffer_begin(comm_t *comm, comm_buffer_t *buffer, int64_t offset, int64_t count)
{
    int64_t n = (int64_t)(buffer->n_bytes / sizeof(float));
    ASSERT(offset >= 0 && count >= 0 && offset <= n - count);
    if (buffer->ops->on_device) return buffer_begin(comm, buffer, offset, count);
    watchdog_enter(summing);
    return watchdog_leave_with(buffer_begin(comm, buffer, offset, count), summing);
}

err_t comm_buffer_finish(comm_t *comm, comm_buffer_t *buffer)
{
    if (buffer->ops->on_device) return buffer_finish(comm, buffer);
    watchdog_enter(summing);
    return watchdog_leave_with(buffer_finish(comm, buffer), summing);
}

err_t comm_check_sums(comm_t *comm)
{
    return comm->gradients->check ? comm->gradients->check(comm) : ERR_OK;
}

/* ---- Sharing out ---- */
static int64_t round_up(int64_t n, int64_t to)
{
    return (n + to - 1) / to * to;
}

comm_slices_t comm_slices(const comm_t *comm, int64_t n, int64_t grain, int64_t n_bucket)
{
    const int64_t whole = comm->gradients->on_device ? n_bucket : n;
    return (comm_slices_t){
        .n = n, .n_bucket = round_up(whole, grain * comm->size), .grain = grain, .size = comm->size};
}

int64_t comm_slices_buckets(const comm_slices_t *s)
{
    return (s->n + s->n_bucket - 1) / s->n_bucket;
}

int64_t comm_slices_length(const comm_slices_t *s, int64_t bucket)
{
    const int64_t n = s->n - bucket * s->n_bucket;
    return n >= s->n_bucket ? s->n_bucket / s->size : round_up((n + s->size - 1) / s->size, s->grain);
}

int64_t comm_slice(const comm_slices_t *s, int64_t bucket, int rank, int64_t *first)
{
    const int64_t length = comm_slices_length(s, bucket), begin = bucket * s->n_bucket + rank * length;
    *first = begin < s->n ? begin : s->n;
    return s->n - *first < length ? s->n - *first : length;
}

int comm_slices_owner(const comm_slices_t *s, int64_t at, int64_t *end)
{
    const int64_t bucket = at / s->n_bucket;
    const int rank = (int)((at - bucket * s->n_bucket) / comm_slices_length(s, bucket));
    int64_t first, n = comm_slice(s, bucket, rank, &first);
    *end = first + n;
    return rank;
}

int64_t comm_slices_padded(const comm_slices_t *s)
{
    const int64_t last = comm_slices_buckets(s) - 1;
    return last * s->n_bucket + s->size * comm_slices_length(s, last);
}

err_t comm_buffer_share(comm_t *comm, comm_buffer_t *buffer, comm_buffer_t *weights,
                        const comm_slices_t *slices)
{
    ASSERT(comm->size > 1 && comm_slices_padded(slices) <= (int64_t)(buffer->n_bytes / sizeof(float)));
    buffer->slices = *slices;
    buffer->weights = weights;
    err_t err = buffer->ops->buffer_share ? buffer->ops->buffer_share(comm, buffer) : ERR_OK;
    return comm_agree(comm, err, "sharing out the gradients");
}

err_t comm_buffer_gather(comm_t *comm, comm_buffer_t *buffer, const char *what)
{
    if (buffer->ops->on_device) return buffer->ops->buffer_gather(comm, buffer);
    watchdog_enter(what);
    return watchdog_leave_with(buffer->ops->buffer_gather(comm, buffer), what);
}

err_t comm_sum_doubles(comm_t *comm, double *data, int64_t n, const char *what)
{
    if (comm->gradients->on_device) return comm->gradients->sum_doubles(comm, data, n);
    return comm_allreduce(comm, data, n, DTYPE_F64, COMM_SUM, what);
}

void comm_buffer_free(comm_t *comm, comm_buffer_t *buffer)
{
    const gradient_ops_t *ops = buffer->ops;
    if (!ops) return;
    if (!ops->on_device) watchdog_enter("freeing the gradient buffers");
    ops->buffer_free(comm, buffer);
    if (!ops->on_device) watchdog_leave();
}

void comm_buffer_set_exact(comm_buffer_t *buffer, int64_t n_exact)
{
    ASSERT(n_exact >= 0 && n_exact <= (int64_t)(buffer->n_bytes / sizeof(float)));
    buffer->n_exact = n_exact;
}

static err_t private_new(comm_t *comm, size_t n_bytes, comm_buffer_t *out)
{
    (void)comm;
    void *data = NULL;
    TRY(mem_new(n_bytes, "the gradient buffer", &data));
    *out = (comm_buffer_t){.ops = &gradients_private, .data = data, .n_bytes = n_bytes};
    return ERR_OK;
}

static err_t private_begin(comm_t *comm, comm_buffer_t *buffer, int64_t offset, int64_t count)
{
    return comm->ops->allreduce(comm, (float *)buffer->data + offset, count, DTYPE_F32, COMM_SUM);
}

static void private_free(comm_t *comm, comm_buffer_t *buffer)
{
    (void)comm;
    mem_free(&buffer->data);
    *buffer = (comm_buffer_t){0};
}

static void private_describe(const comm_t *comm, char *out, size_t n_bytes)
{
    (void)comm;
    snprintf(out, n_bytes, "none (one rank)");
}

const gradient_ops_t gradients_private = {
    .name = "self",
    .buffer_new = private_new,
    .buffer_begin = private_begin,
    .buffer_free = private_free,
    .describe = private_describe,
};
