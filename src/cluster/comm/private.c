/* SPDX-License-Identifier: MIT */
/* Gradient buffers in private memory of this rank: for one process, and where ranks cannot share memory. */
#include <stdio.h>

#include "base/mem.h"
#include "cluster/comm/buffer.h"
#include "cluster/comm/gradients.h"

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
