/* SPDX-License-Identifier: MIT */
/* Runs a caller's work on rank 0 and broadcasts the result, extending the other ranks' deadlines meanwhile.
 * The work and its byte form are left to the caller. */
#include "cluster/comm/from_rank0.h"

#include "base/clock.h"
#include "base/mem.h"

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
