/* SPDX-License-Identifier: MIT */
/* The calls of comm.h: each runs a communicator's function under the watchdog, and comm_agree and
 * comm_decide spread an error to all ranks. Opening a communicator is left to registry.c. */
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

/* All ranks fail with `code` and the message of one, which says who it is if the others have another. */
static err_t spread_failure(comm_t *comm, int rank, bool same, err_t code)
{
    err_info_t info = {0};
    if (comm->rank == rank) {
        if (comm->size > 1 && !same) err_context(code, "rank %d on %s", rank, comm->topo.host_name);
        err_take(code, &info);
    }
    TRY(comm->ops->broadcast(comm, &info, sizeof info, rank));
    info.code = code;
    err_put(&info);
    return ERR_OK;
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
    bool same = !all.someone_ok && all.hash_high == -all.hash_low;
    return spread_failure(comm, comm->size - (int)all.before_last, same, *out);
}

err_t comm_agree(comm_t *comm, err_t mine, const char *what)
{
    err_t agreed = mine;
    watchdog_enter(what);
    TRY(watchdog_leave_with(agree_on(comm, mine, &agreed), what));
    comm->agreed = agreed;
    return agreed;
}

typedef struct decision {
    int64_t code;
    char data[COMM_DECISION_MAX];
} decision_t;

static err_t decide_on(comm_t *comm, err_t mine, void *data, int64_t n_bytes, err_t *out)
{
    decision_t all = {.code = mine};
    memcpy(all.data, data, (size_t)n_bytes);
    TRY(comm->ops->broadcast(comm, &all, (int64_t)offsetof(decision_t, data) + n_bytes, 0));
    *out = (err_t)all.code;
    if (all.code != ERR_OK) return spread_failure(comm, 0, false, *out);
    memcpy(data, all.data, (size_t)n_bytes);
    return ERR_OK;
}

err_t comm_decide(comm_t *comm, err_t mine, void *data, int64_t n_bytes, const char *what)
{
    err_t agreed = mine;
    ASSERT(n_bytes >= 0 && n_bytes <= COMM_DECISION_MAX);
    watchdog_enter(what);
    TRY(watchdog_leave_with(decide_on(comm, mine, data, n_bytes, &agreed), what));
    comm->agreed = agreed;
    return agreed;
}
