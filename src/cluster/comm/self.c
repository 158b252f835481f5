/* SPDX-License-Identifier: MIT */
/* The communicator of a job with one process: every collective is a no-op or a copy, under the same contract
 * as MPI. */
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/process.h"
#include "cluster/comm/gradients.h"

static err_t self_barrier(comm_t *comm)
{
    (void)comm;
    return ERR_OK;
}

static err_t self_broadcast(comm_t *comm, void *data, int64_t n_bytes, int root)
{
    (void)comm, (void)data, (void)n_bytes, (void)root;
    return ERR_OK;
}

static err_t self_allreduce(comm_t *comm, void *data, int64_t count, dtype_t dtype, comm_op_t op)
{
    (void)comm, (void)data, (void)count, (void)dtype, (void)op;
    return ERR_OK;
}

static err_t self_allgather(comm_t *comm, const void *send, int64_t n_bytes, void *recv)
{
    (void)comm;
    if (n_bytes > 0) memmove(recv, send, (size_t)n_bytes);
    return ERR_OK;
}

static err_t self_allgatherv(comm_t *comm, const void *send, const int64_t *n_bytes, void *recv)
{
    return self_allgather(comm, send, n_bytes[0], recv);
}

static err_t self_send(comm_t *comm, const void *data, int64_t n_bytes, int to)
{
    (void)comm, (void)data, (void)n_bytes, (void)to;
    ASSERT(!"no rank to send to");
    return ERR_OK;
}

static err_t self_receive(comm_t *comm, void *data, int64_t n_bytes, int from)
{
    (void)comm, (void)data, (void)n_bytes, (void)from;
    ASSERT(!"no rank to receive from");
    return ERR_OK;
}

static void self_close(comm_t *comm)
{
    (void)comm;
}

static void self_describe(char *out, size_t n_bytes)
{
    snprintf(out, n_bytes, "none (one process)");
}

static err_t self_open(const comm_options_t *options, comm_t *comm);

const comm_ops_t comm_self = {
    .name = "self",
    .gradients = &gradients_private,
    .open = self_open,
    .barrier = self_barrier,
    .barrier_asleep = self_barrier,
    .broadcast = self_broadcast,
    .allreduce = self_allreduce,
    .allgather = self_allgather,
    .allgatherv = self_allgatherv,
    .alltoall = self_allgather, /* the same for one rank */
    .send = self_send,
    .receive = self_receive,
    .describe = self_describe,
    .close = self_close,
};

static err_t become_self(comm_t *comm)
{
    TRY(mem_new(sizeof *comm->places, "the list of hosts", &comm->places));
    topo_self(&comm->topo);
    memcpy(comm->places->host, comm->topo.host_name, sizeof comm->places->host);
    comm->ops = &comm_self;
    comm->gradients = comm_self.gradients;
    comm->rank = 0;
    comm->size = 1;
    return ERR_OK;
}

static err_t self_open(const comm_options_t *options, comm_t *comm)
{
    if (launch_size() > 1)
        RAISE(ERR_USAGE,
              "--comm self is for one process, but the launcher started %d; use --comm mpi or auto",
              launch_size());
    if (options->allreduce && strcmp(options->allreduce, "auto") != 0)
        RAISE(ERR_USAGE, "--allreduce %s is not available with one process; use --allreduce auto",
              options->allreduce);
    return become_self(comm);
}

err_t comm_alone(comm_t **out)
{
    TRY(mem_new(sizeof **out, "a communicator of one rank", out));
    err_t err = become_self(*out);
    if (err != ERR_OK) mem_free(out);
    return err;
}
