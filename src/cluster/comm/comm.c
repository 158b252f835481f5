/* SPDX-License-Identifier: MIT */
/* The calls of comm.h: each runs a communicator's function under the watchdog, and comm_agree spreads an
 * error to all ranks. Opening a communicator is left to registry.c. */
#include "cluster/comm/comm.h"

#include <string.h>
#include <xxhash.h>

#include "cluster/comm/watchdog.h"

void comm_describe(const comm_t *comm, char *out, size_t n_bytes)
{
    comm->ops->describe(out, n_bytes);
}

err_t comm_barrier(comm_t *comm, const char *what)
{
    watchdog_enter(what);
    return watchdog_leave_with(comm->ops->barrier(comm), what);
}

err_t comm_barrier_asleep(comm_t *comm, const char *what)
{
    watchdog_enter_planned(what);
    return watchdog_leave_with(comm->ops->barrier_asleep(comm), what);
}

err_t comm_broadcast(comm_t *comm, void *data, int64_t n_bytes, int root, const char *what)
{
    ASSERT(n_bytes >= 0 && root >= 0 && root < comm->size);
    watchdog_enter(what);
    return watchdog_leave_with(comm->ops->broadcast(comm, data, n_bytes, root), what);
}

err_t comm_allreduce(comm_t *comm, void *data, int64_t count, dtype_t dtype, comm_op_t op, const char *what)
{
    ASSERT(count >= 0 && dtype <= DTYPE_I64 && op <= COMM_MIN);
    watchdog_enter(what);
    return watchdog_leave_with(comm->ops->allreduce(comm, data, count, dtype, op), what);
}

err_t comm_allgather(comm_t *comm, const void *send, int64_t n_bytes, void *recv, const char *what)
{
    ASSERT(n_bytes >= 0);
    watchdog_enter(what);
    return watchdog_leave_with(comm->ops->allgather(comm, send, n_bytes, recv), what);
}

err_t comm_allgatherv(comm_t *comm, const void *send, const int64_t *n_bytes, void *recv, const char *what)
{
    int64_t total = 0;
    for (int r = 0; r < comm->size; r++)
        ASSERT(n_bytes[r] >= 0 && !__builtin_add_overflow(total, n_bytes[r], &total));
    watchdog_enter(what);
    return watchdog_leave_with(comm->ops->allgatherv(comm, send, n_bytes, recv), what);
}

err_t comm_alltoall(comm_t *comm, const void *send, int64_t n_bytes, void *recv, const char *what)
{
    ASSERT(n_bytes >= 0);
    watchdog_enter(what);
    return watchdog_leave_with(comm->ops->alltoall(comm, send, n_bytes, recv), what);
}

/* The operand of one MAX allreduce over all ranks' results; if no rank failed, that is all the
 * communication. */
typedef struct verdict {
    int64_t worst;       /* highest code */
    int64_t before_last; /* size − lowest failing rank; 0: none failed */
    int64_t someone_ok;
    int64_t hash_high, hash_low; /* max of h and of −h: opposite if all messages are equal */
} verdict_t;

/* The lowest failing rank fills in the message for all ranks. */
static void announce_failure(const comm_t *comm, const verdict_t *all, err_t mine, err_info_t *out)
{
    *out = (err_info_t){0};
    if (comm->rank != comm->size - all->before_last) return;
    err_take(mine, out);
    bool same = !all->someone_ok && all->hash_high == -all->hash_low;
    if (comm->size == 1 || same) return;
    err_context(mine, "rank %d on %s", comm->rank, comm->topo.host_name);
    err_take(mine, out);
}

static err_t agree_on(comm_t *comm, err_t mine, err_t *out)
{
    const char *words = err_message();
    int64_t hash = mine == ERR_OK ? 0 : (int64_t)(XXH3_64bits(words, strlen(words)) >> 1);
    verdict_t all = {
        .worst = mine,
        .before_last = mine == ERR_OK ? 0 : comm->size - comm->rank,
        .someone_ok = mine == ERR_OK,
        .hash_high = hash,
        .hash_low = -hash,
    };
    TRY(comm->ops->allreduce(comm, &all, sizeof all / sizeof(int64_t), DTYPE_I64, COMM_MAX));
    *out = (err_t)all.worst;
    if (all.worst == ERR_OK) return ERR_OK;
    err_info_t info;
    announce_failure(comm, &all, mine, &info);
    TRY(comm->ops->broadcast(comm, &info, sizeof info, comm->size - (int)all.before_last));
    info.code = *out;
    err_put(&info);
    return ERR_OK;
}

err_t comm_agree(comm_t *comm, err_t mine, const char *what)
{
    err_t agreed = mine;
    watchdog_enter(what);
    TRY(watchdog_leave_with(agree_on(comm, mine, &agreed), what));
    comm->agreed = agreed;
    return agreed;
}
