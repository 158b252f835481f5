/* SPDX-License-Identifier: MIT */
/* The buffers of a communicator that `bench comm` measures, in the memory that it asks for. */
#include <string.h>

#include "base/mem.h"
#include "tools/bench/comm_case.h"

int comm_lane_buffers(const comm_session_t *s, const collective_ops_t *by)
{
    return by->memory != COLLECTIVE_IN_BUFFER && s->plan.out_of_place ? 2 : 1;
}

static err_t new_on_host(comm_session_t *s, comm_lane_t *lane, bool two)
{
    size_t n_bytes = (size_t)s->sizes.max;
    err_t err = mem_new(n_bytes, "the receive buffer", &lane->recv);
    if (err == ERR_OK && two) err = mem_new(n_bytes, "the send buffer", &lane->send);
    if (err == ERR_OK) memset(lane->recv, 0, n_bytes);
    if (err == ERR_OK && two) memset(lane->send, 0, n_bytes);
    return comm_agree(s->bench->comm, err, "allocating the buffers");
}

static err_t new_on_device(comm_session_t *s, comm_lane_t *lane, bool two)
{
    const backend_t *backend = s->bench->runtime.backend;
    size_t n_bytes = (size_t)s->sizes.max;
    err_t err = hd_buffer_new(backend, n_bytes, "the receive buffer", &lane->device_recv);
    if (err == ERR_OK && two) err = hd_buffer_new(backend, n_bytes, "the send buffer", &lane->device_send);
    return comm_agree(s->bench->comm, err, "allocating the GPU buffers");
}

err_t comm_lane_open(comm_session_t *s, const collective_ops_t *by, comm_lane_t *lane)
{
    bool two = comm_lane_buffers(s, by) == 2;
    lane->by = by;
    if (by->memory == COLLECTIVE_ON_HOST) TRY(new_on_host(s, lane, two));
    if (by->memory == COLLECTIVE_ON_DEVICE) TRY(new_on_device(s, lane, two));
    return collective_open(s->bench->comm, by, s->sizes.max, &lane->shared);
}

void comm_lane_close(comm_session_t *s, comm_lane_t *lane)
{
    comm_buffer_free(s->bench->comm, &lane->shared);
    hd_buffer_free(&lane->device_send);
    hd_buffer_free(&lane->device_recv);
    mem_free(&lane->send);
    mem_free(&lane->recv);
}

char *comm_lane_recv(const comm_lane_t *lane)
{
    return lane->shared.data ? lane->shared.data : lane->recv ? lane->recv : lane->device_recv.host;
}

char *comm_lane_send(const comm_lane_t *lane)
{
    return lane->send ? lane->send : lane->device_send.host;
}

err_t comm_lane_push(const comm_session_t *s, const comm_lane_t *lane, size_t n_bytes, bool in_place)
{
    if (lane->by->memory != COLLECTIVE_ON_DEVICE) return ERR_OK;
    TRY(hd_buffer_push(&lane->device_recv, 0, n_bytes));
    if (!in_place) TRY(hd_buffer_push(&lane->device_send, 0, n_bytes));
    return backend_sync(s->bench->runtime.backend);
}

err_t comm_lane_pull(const comm_lane_t *lane, size_t n_bytes, bool in_place)
{
    if (lane->by->memory != COLLECTIVE_ON_DEVICE) return ERR_OK;
    TRY(hd_buffer_pull(&lane->device_recv, 0, n_bytes));
    return in_place ? ERR_OK : hd_buffer_pull(&lane->device_send, 0, n_bytes);
}
