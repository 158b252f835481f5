/* SPDX-License-Identifier: MIT */
/* Hands turns between two jobs: a token through two FIFOs, and the order of batches. measure.c decides which
 * batches to take. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fs.h"
#include "base/log.h"
#include "base/mem.h"
#include "cluster/session/signals.h"
#include "tools/bench/protocol.h"

enum { ID_BYTES = 20 };
/* Rank 0 must give up before the other ranks, which wait for it for --timeout. */
static const double own_share = 0.9;

/* Sent with each turn, and as a greeting. Shorter than PIPE_BUF, so writes are atomic. */
typedef struct token {
    char id[ID_BYTES]; /* of the run */
    char what[96];     /* current point */
    int32_t n_batches; /* of the point */
} token_t;

struct turns {
    comm_t *comm;
    bool is_first;
    int n_done; /* batches of this point */
    double timeout_sec;
    /* On rank 0: */
    int in, out;            /* FIFOs; -1 */
    bool alone, said_alone; /* the other job has ended; this was logged */
    token_t mine, other;
};

static err_t parse_spec(const char *spec, char folder[FS_PATH_MAX], bool *is_first)
{
    const char *colon = strrchr(spec, ':');
    *is_first = colon && strcmp(colon, ":first") == 0;
    if (!colon || colon == spec || (!*is_first && strcmp(colon, ":second") != 0))
        RAISE(ERR_USAGE, "invalid --turns '%s': expected FOLDER:first or FOLDER:second", spec);
    if (colon - spec >= FS_PATH_MAX) RAISE(ERR_USAGE, "--turns: the folder name is too long");
    snprintf(folder, FS_PATH_MAX, "%.*s", (int)(colon - spec), spec);
    return ERR_OK;
}

/* The job that starts first creates it. */
static err_t make_fifo(const char *folder, const char *name, char path[FS_PATH_MAX])
{
    struct stat info;
    TRY(fs_join(path, folder, name));
    if (mkfifo(path, 0600) != 0 && errno != EEXIST)
        RAISE(ERR_SYSTEM, "--turns: cannot create the FIFO '%s': %s", path, strerror(errno));
    if (stat(path, &info) != 0 || !S_ISFIFO(info.st_mode))
        RAISE(ERR_USAGE, "--turns: '%s' exists and is not a FIFO; choose another folder", path);
    return ERR_OK;
}

static err_t raise_interrupted(void)
{
    RAISE(ERR_GATE, "interrupted by a signal");
}

/* Opens the FIFO of the other job as soon as that job listens. */
static err_t connect_peer(turns_t *t, const char *path, double end_sec)
{
    while ((t->out = open(path, O_WRONLY | O_NONBLOCK | O_CLOEXEC)) < 0) {
        if (errno != ENXIO) RAISE(ERR_SYSTEM, "cannot open '%s': %s", path, strerror(errno));
        if (stop_requested()) return raise_interrupted();
        if (clock_sec() > end_sec)
            RAISE(ERR_PEER, "--turns: the other job did not start within %g s (--timeout)", t->timeout_sec);
        clock_sleep(0.01);
    }
    return ERR_OK;
}

static err_t send_token(turns_t *t)
{
    if (t->alone) return ERR_OK;
    ssize_t n = write(t->out, &t->mine, sizeof t->mine);
    if (n == (ssize_t)sizeof t->mine) return ERR_OK;
    if (n >= 0 || errno != EPIPE)
        RAISE(ERR_SYSTEM, "--turns: cannot hand over the turn: %s", strerror(errno));
    t->alone = true;
    return ERR_OK;
}

/* Waits for a token, or until the other job has ended. */
static err_t receive_token(turns_t *t, double end_sec)
{
    enum { LOOK_MS = 100 }; /* for a signal that came before poll */
    while (!t->alone) {
        struct pollfd in = {.fd = t->in, .events = POLLIN};
        if (stop_requested()) return raise_interrupted();
        if (clock_sec() > end_sec)
            RAISE(ERR_PEER, "--turns: the other job did not return the turn within %g s (--timeout)",
                  t->timeout_sec);
        if (poll(&in, 1, LOOK_MS) <= 0) continue;
        ssize_t n = read(t->in, &t->other, sizeof t->other);
        if (n == (ssize_t)sizeof t->other) return ERR_OK;
        if (n == 0) t->alone = true;
        if (n > 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
            RAISE(ERR_SYSTEM, "--turns: cannot read from the other job: %s",
                  n < 0 ? strerror(errno) : "it is a different version of dptrain");
    }
    return ERR_OK;
}

static err_t open_pipes(turns_t *t, const char *folder)
{
    char inbox[FS_PATH_MAX], outbox[FS_PATH_MAX];
    TRY(fs_make_folder(folder));
    TRY(make_fifo(folder, t->is_first ? "first" : "second", inbox));
    TRY(make_fifo(folder, t->is_first ? "second" : "first", outbox));
    signal(SIGPIPE, SIG_IGN); /* write reports the end of the other job */
    t->in = open(inbox, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    if (t->in < 0) RAISE(ERR_SYSTEM, "cannot open '%s': %s", inbox, strerror(errno));
    double end_sec = clock_sec() + own_share * t->timeout_sec;
    TRY(connect_peer(t, outbox, end_sec));
    TRY(send_token(t));
    TRY(receive_token(t, end_sec));
    if (t->alone) RAISE(ERR_PEER, "--turns: the other job ended before the first turn");
    unlink(inbox); /* both jobs have it open */
    return ERR_OK;
}

/* Collective. The other ranks sleep until rank 0 has the turn. */
static err_t wait_for_turn(turns_t *t)
{
    double end_sec = clock_sec() + own_share * t->timeout_sec;
    err_t err = t->comm->rank == 0 ? receive_token(t, end_sec) : ERR_OK;
    TRY(comm_barrier_asleep(t->comm, "waiting for the turn"));
    return comm_agree(t->comm, err, "waiting for the turn");
}

err_t turns_open(comm_t *comm, const char *spec, const char *id, double timeout_sec, turns_t **out)
{
    static const char what[] = "connecting to the other job";
    char folder[FS_PATH_MAX];
    turns_t *t = NULL;
    bool is_first;
    TRY(comm_agree(comm, parse_spec(spec, folder, &is_first), what));
    TRY(comm_agree(comm, mem_new(sizeof *t, "turns", &t), what));
    *t = (turns_t){.comm = comm, .is_first = is_first, .timeout_sec = timeout_sec, .in = -1, .out = -1};
    *out = t;
    if (comm->rank == 0) snprintf(t->mine.id, sizeof t->mine.id, "%s", id);
    err_t err = comm->rank == 0 ? open_pipes(t, folder) : ERR_OK;
    TRY(comm_barrier_asleep(comm, what));
    TRY(comm_agree(comm, err, what));
    return is_first ? ERR_OK : wait_for_turn(t);
}

const char *turns_other(const turns_t *turns)
{
    return turns->other.id;
}

static err_t check_same_point(const turns_t *t, const char *what)
{
    if (t->alone || strncmp(t->other.what, what, sizeof t->other.what - 1) == 0) return ERR_OK;
    RAISE(ERR_USAGE,
          "--turns: this job measures %s while the other job measures %s; start both with the same cases and "
          "options",
          what, t->other.what);
}

err_t turns_begin_point(turns_t *t, const char *what, int n, int *out)
{
    err_t err = ERR_OK;
    t->n_done = 0;
    *out = n + n % 2;
    if (t->comm->rank == 0) {
        snprintf(t->mine.what, sizeof t->mine.what, "%s", what);
        t->mine.n_batches = *out;
        if (!t->is_first) err = check_same_point(t, what);
        if (!t->is_first && !t->alone) *out = t->other.n_batches;
    }
    TRY(comm_agree(t->comm, err, "starting a point"));
    return comm_broadcast(t->comm, out, sizeof *out, 0, "starting a point");
}

err_t turns_end_batch(turns_t *t)
{
    /* Logged only once a batch was measured without the other job. */
    if (t->alone && !t->said_alone)
        log_info("--turns: the other job has ended; the remaining points are measured alone");
    t->said_alone |= t->alone;
    bool is_due = t->n_done++ % 2 == (t->is_first ? 0 : 1);
    if (!is_due) return ERR_OK;
    err_t err = t->comm->rank == 0 ? send_token(t) : ERR_OK;
    TRY(comm_agree(t->comm, err, "handing over the turn"));
    return wait_for_turn(t);
}

void turns_close(turns_t **turns)
{
    turns_t *t = *turns;
    if (!t) return;
    if (t->in >= 0) close(t->in);
    if (t->out >= 0) close(t->out);
    mem_free(turns);
}
