/* SPDX-License-Identifier: MIT */
/* Single collectives on GPU buffers, for benchmarks. They use a separate, blocking communicator: the
 * non-blocking one for gradients hands every call to another thread, which costs more than a small
 * message. */
#include <string.h>

#include "cluster/comm/nccl/nccl.h"
#include "cluster/comm/nccl_report.h"
#include "cluster/watch/watchdog.h"

static const char starting[] = "starting NCCL for single calls";

static err_t direct_init(nccl_impl_t *impl, const ncclUniqueId *id)
{
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    ncclComm_t direct = NULL;
    config.blocking = 1;
    /* Nothing polls here: the watchdog ends the job if a peer does not arrive. */
    watchdog_enter(starting);
    atomic_store(&impl->doing, starting);
    ncclResult_t status =
        nccl_lib.CommInitRankConfig(&direct, impl->comm->size, *id, impl->comm->rank, &config);
    watchdog_leave();
    E_NCCL(status, starting);
    TRY(nccl_lock(impl));
    impl->direct = direct;
    nccl_unlock(impl);
    return ERR_OK;
}

static err_t direct_open(comm_t *comm, int64_t n_bytes, comm_buffer_t *buffer)
{
    (void)n_bytes, (void)buffer;
    nccl_impl_t *impl = comm->library;
    ncclUniqueId id;
    err_t err = ERR_OK;
    if (impl->direct) return ERR_OK;
    memset(&id, 0, sizeof id);
    if (comm->rank == 0)
        err = nccl_check(nccl_lib.GetUniqueId(&id), "creating a unique id", __FILE__, __LINE__);
    TRY(comm_agree(comm, err, starting));
    TRY(comm_broadcast(comm, &id, sizeof id, 0, "sharing NCCL's unique id"));
    return comm_agree(comm, direct_init(impl, &id), starting);
}

static ncclDataType_t type_of(collective_type_t type)
{
    static const ncclDataType_t types[COLLECTIVE_TYPES] = {
        [COLLECTIVE_INT8] = ncclInt8,     [COLLECTIVE_UINT8] = ncclUint8,
        [COLLECTIVE_INT32] = ncclInt32,   [COLLECTIVE_UINT32] = ncclUint32,
        [COLLECTIVE_INT64] = ncclInt64,   [COLLECTIVE_UINT64] = ncclUint64,
        [COLLECTIVE_FLOAT] = ncclFloat32, [COLLECTIVE_DOUBLE] = ncclFloat64,
        [COLLECTIVE_HALF] = ncclFloat16,  [COLLECTIVE_BFLOAT16] = ncclBfloat16,
    };
    return types[type];
}

/* At most one message each way, in elements; 0: none. */
typedef struct transfer {
    const char *send;
    char *recv;
    int to, from;
    size_t n_send, n_recv;
} transfer_t;

static ncclResult_t direct_exchange(const nccl_impl_t *impl, ncclDataType_t type, const transfer_t *m)
{
    ncclResult_t status = ncclSuccess;
    if (m->n_send) status = nccl_lib.Send(m->send, m->n_send, type, m->to, impl->direct, impl->stream);
    if (status == ncclSuccess && m->n_recv)
        status = nccl_lib.Recv(m->recv, m->n_recv, type, m->from, impl->direct, impl->stream);
    return status;
}

/* What this rank exchanges with rank r in one of the collectives that consist of messages between all. *sent, *received:
 * bytes of an alltoallv exchanged with the ranks before it. */
static transfer_t transfer_with(const nccl_impl_t *impl, const collective_spec_t *s, int r, size_t *sent,
                                size_t *received)
{
    const int rank = impl->comm->rank, size = impl->comm->size;
    const size_t n_element = collective_type_size(s->type), count = (size_t)s->count,
                 n_piece = count * n_element;
    const char *send = s->send ? s->send : s->recv;
    char *recv = s->recv;
    switch (s->kind) {
    case COLLECTIVE_GATHER:
        if (!s->send) send += (size_t)rank * n_piece;
        return (transfer_t){send, recv + (size_t)r * n_piece, r,
                            r,    r == s->root ? count : 0,   rank == s->root ? count : 0};
    case COLLECTIVE_SCATTER:
        if (!s->send) recv += (size_t)rank * n_piece;
        return (transfer_t){send + (size_t)r * n_piece, recv, r, r, rank == s->root ? count : 0,
                            r == s->root ? count : 0};
    case COLLECTIVE_ALLTOALLV: {
        transfer_t m = {send + *sent, recv + *received, r, r, 0, 0};
        m.n_send = (size_t)collective_part(s->count, s->type, rank, r, size);
        m.n_recv = (size_t)collective_part(s->count, s->type, r, rank, size);
        *sent += m.n_send * n_element;
        *received += m.n_recv * n_element;
        return m;
    }
    default: /* COLLECTIVE_ALLTOALL */
        return (transfer_t){send + (size_t)r * n_piece, recv + (size_t)r * n_piece, r, r, count, count};
    }
}

/* Messages of a group are sent at once. */
static ncclResult_t direct_group(const nccl_impl_t *impl, const collective_spec_t *s, const transfer_t *only)
{
    size_t sent = 0, received = 0;
    ncclResult_t status = nccl_lib.GroupStart();
    if (status != ncclSuccess) return status;
    if (only) status = direct_exchange(impl, type_of(s->type), only);
    for (int r = 0; !only && status == ncclSuccess && r < impl->comm->size; r++) {
        const transfer_t m = transfer_with(impl, s, r, &sent, &received);
        status = direct_exchange(impl, type_of(s->type), &m);
    }
    ncclResult_t ended = nccl_lib.GroupEnd();
    return status == ncclSuccess ? ended : status;
}

/* Around the ring, or with the spec's peer. */
static ncclResult_t direct_pair(const nccl_impl_t *impl, const collective_spec_t *s)
{
    const int rank = impl->comm->rank, size = impl->comm->size;
    const bool exchange = s->kind == COLLECTIVE_EXCHANGE;
    if (exchange && s->peer == rank) return ncclSuccess;
    const int to = exchange ? s->peer : (rank + 1) % size,
              from = exchange ? s->peer : (rank + size - 1) % size;
    return direct_group(impl, s,
                        &(transfer_t){s->send, s->recv, to, from, (size_t)s->count, (size_t)s->count});
}

/* One step after the other: in step k two ranks that differ in bit k swap the 2^k pieces that each has. */
static err_t direct_hypercube(const nccl_impl_t *impl, const collective_spec_t *s)
{
    const size_t count = (size_t)s->count, n_piece = count * collective_type_size(s->type);
    const int rank = impl->comm->rank;
    char *recv = s->recv;
    if (s->send)
        E_CUDART(cudaMemcpyAsync(recv + (size_t)rank * n_piece, s->send, n_piece, cudaMemcpyDeviceToDevice,
                                 impl->stream),
                 s->what);
    for (int bit = 1; bit < impl->comm->size; bit <<= 1) {
        const int peer = rank ^ bit, first = rank & ~(bit - 1);
        const size_t n = (size_t)bit * count;
        const transfer_t m = {
            recv + (size_t)first * n_piece, recv + (size_t)(first ^ bit) * n_piece, peer, peer, n, n};
        E_NCCL(direct_group(impl, s, &m), s->what);
    }
    return ERR_OK;
}

static ncclResult_t direct_call(const nccl_impl_t *impl, const collective_spec_t *s)
{
    static const ncclRedOp_t ops[COLLECTIVE_OPS] = {
        [COLLECTIVE_SUM] = ncclSum, [COLLECTIVE_PROD] = ncclProd, [COLLECTIVE_MAX] = ncclMax,
        [COLLECTIVE_MIN] = ncclMin, [COLLECTIVE_AVG] = ncclAvg,
    };
    size_t count = (size_t)s->count, n_piece = count * collective_type_size(s->type);
    size_t own = (size_t)impl->comm->rank * n_piece;
    char *recv = s->recv;
    const void *send = s->send ? s->send : recv;
    ncclDataType_t type = type_of(s->type);
    ncclRedOp_t op = ops[s->op];
    ncclComm_t direct = impl->direct;
    switch (s->kind) {
    case COLLECTIVE_ALL_REDUCE:
        return nccl_lib.AllReduce(send, recv, count, type, op, direct, impl->stream);
    case COLLECTIVE_ALL_GATHER:
        return nccl_lib.AllGather(s->send ? send : recv + own, recv, count, type, direct, impl->stream);
    case COLLECTIVE_REDUCE_SCATTER:
        return nccl_lib.ReduceScatter(send, s->send ? recv : recv + own, count, type, op, direct,
                                      impl->stream);
    case COLLECTIVE_BROADCAST:
        return nccl_lib.Broadcast(send, recv, count, type, s->root, direct, impl->stream);
    case COLLECTIVE_REDUCE:
        return nccl_lib.Reduce(send, recv, count, type, op, s->root, direct, impl->stream);
    case COLLECTIVE_SENDRECV:
    case COLLECTIVE_EXCHANGE:
        return direct_pair(impl, s);
    default:
        return direct_group(impl, s, NULL);
    }
}

static err_t direct_run(comm_t *comm, const collective_spec_t *spec, void *own)
{
    (void)own;
    nccl_impl_t *impl = comm->library;
    ASSERT(impl->direct);
    atomic_store(&impl->doing, spec->what);
    TRY(nccl_lock(impl)); /* unless it is broken */
    nccl_unlock(impl);
    if (spec->kind == COLLECTIVE_HYPERCUBE) return direct_hypercube(impl, spec);
    E_NCCL(direct_call(impl, spec), spec->what);
    return ERR_OK;
}

static err_t direct_wait(comm_t *comm, const collective_spec_t *spec)
{
    const nccl_impl_t *impl = comm->library;
    E_CUDART(cudaStreamSynchronize(impl->stream), spec->what);
    debug_log_quiet(nccl_lib.reset_debug); /* the first call has connected the ranks */
    return ERR_OK;
}

const collective_ops_t collective_nccl = {
    .name = "nccl",
    .title = "NCCL",
    .limits = "NCCL does not support this",
    .memory = COLLECTIVE_ON_DEVICE,
    .out_of_place = (1 << COLLECTIVE_KINDS) - 1,
    .in_place = (1 << COLLECTIVE_ALLTOALL) - 1, /* the others send all messages at once */
    .types = (1 << COLLECTIVE_TYPES) - 1,
    .ops = (1 << COLLECTIVE_OPS) - 1,
    .open = direct_open,
    .run = direct_run,
    .wait = direct_wait,
    .describe = nccl_describe_way,
    .algorithm = nccl_describe_way,
};
