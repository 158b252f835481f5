/* SPDX-License-Identifier: MIT */
/* The calls of comm.h: each runs a communicator's function under the watchdog; comm_agree and comm_decide spread an error
 * to all ranks; comm_share runs a caller's work on rank 0 for all; clocks are compared by round trips to rank 0. Opening a
 * communicator is left to registry.c. */
#include "cluster/comm/comm.h"

#include <string.h>
#include <xxhash.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/process.h"
#include "cluster/watch/watchdog.h"

err_t comm_check_launch(const launch_t *launch, int n_seen, const char *library)
{
    err_t err = launch_check(launch, n_seen, library);
    if (err == ERR_OK) return ERR_OK;
    char host[64];
    launch_host_name(host, sizeof host);
    log_set_rank(launch->rank, launch->size, host);
    log_share_errors();
    return err;
}

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

/* ---- Work that rank 0 does for all ---- */
/* Short enough for the shortest deadline, one second. */
static const double beat_sec = 0.2;

typedef struct share {
    comm_t *comm;
    const char *what;
    double last_sec; /* time of the last sign of life */
} share_t;

/* comm_alive_t of rank 0: makes the other ranks wait again, which restarts their deadline. */
static err_t tell_alive(void *context)
{
    share_t *share = context;
    bool more = true;
    double now_sec = clock_sec();
    if (share->comm->size == 1 || now_sec - share->last_sec < beat_sec) return ERR_OK;
    share->last_sec = now_sec;
    return comm_broadcast(share->comm, &more, sizeof more, 0, share->what);
}

err_t comm_broadcast_block(comm_t *comm, void **block, int64_t *n_bytes, const char *what)
{
    bool own = !*block;
    TRY(comm_broadcast(comm, n_bytes, sizeof *n_bytes, 0, what));
    err_t err = own ? mem_new((size_t)*n_bytes, what, block) : ERR_OK;
    err = comm_agree(comm, err, what);
    if (err == ERR_OK) err = comm_broadcast(comm, *block, *n_bytes, 0, what);
    if (err != ERR_OK && own) mem_free(block);
    return err;
}

err_t comm_share(comm_t *comm, const comm_finding_t *finding)
{
    share_t share = {comm, finding->what, clock_sec()};
    void *bytes = NULL;
    int64_t n_bytes = 0;
    bool more = false;
    err_t err = comm->rank == 0 ? finding->find(finding->context, tell_alive, &share) : ERR_OK;
    if (comm->size == 1) return comm_agree(comm, err, finding->what);
    do TRY(comm_broadcast(comm, &more, sizeof more, 0, finding->what));
    while (more);
    TRY(comm_agree(comm, err, finding->what));
    if (comm->rank == 0) err = finding->save(finding->context, &bytes, &n_bytes);
    TRY_OUT(err, comm_agree(comm, err, finding->what));
    TRY_OUT(err, comm_broadcast_block(comm, &bytes, &n_bytes, finding->what));
    if (comm->rank != 0) err = finding->restore(finding->context, &bytes, n_bytes);
    err = comm_agree(comm, err, finding->what);
out:
    mem_free(&bytes);
    return err;
}

/* ---- Clocks ---- */
/* Round trips per rank; enough for one of them to meet no other traffic. */
enum { N_ROUNDS = 32 };

static err_t answer_clock(comm_t *comm, double (*clock)(void), int rank)
{
    for (int i = 0; i < N_ROUNDS; i++) {
        double now;
        TRY(comm->ops->receive(comm, &now, sizeof now, rank));
        now = clock();
        TRY(comm->ops->send(comm, &now, sizeof now, rank));
    }
    return ERR_OK;
}

static err_t ask_clock(comm_t *comm, double (*clock)(void), double *offset_sec, double *error_sec)
{
    double best = -1;
    for (int i = 0; i < N_ROUNDS; i++) {
        double theirs, start = clock();
        TRY(comm->ops->send(comm, &start, sizeof start, 0));
        TRY(comm->ops->receive(comm, &theirs, sizeof theirs, 0));
        double round_trip = clock() - start;
        if (best >= 0 && round_trip >= best) continue;
        best = round_trip;
        *offset_sec = theirs - (start + round_trip / 2);
        *error_sec = round_trip / 2;
    }
    return ERR_OK;
}

static err_t measure_offset(comm_t *comm, double (*clock)(void), double *offset_sec, double *error_sec)
{
    if (comm->rank > 0) return ask_clock(comm, clock, offset_sec, error_sec);
    for (int r = 1; r < comm->size; r++) TRY(answer_clock(comm, clock, r));
    return ERR_OK;
}

err_t comm_clock_offset(comm_t *comm, double (*clock)(void), double *offset_sec, double *error_sec)
{
    *offset_sec = *error_sec = 0;
    watchdog_enter("comparing clocks");
    return watchdog_leave_with(measure_offset(comm, clock, offset_sec, error_sec), "comparing clocks");
}

double comm_clock_map(comm_clock_mark_t first, comm_clock_mark_t last, double sec)
{
    double span = last.at_sec - first.at_sec;
    double part = span > 0 ? (sec - first.at_sec) / span : 0;
    return sec + first.offset_sec + part * (last.offset_sec - first.offset_sec);
}
