/* SPDX-License-Identifier: MIT */
/* The thread that keeps the deadlines of a process. It never does what could block: messages and MPI_Abort
 * are left to another thread, which it outlives if need be. */
#include "base/deadline.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/deadline_peers.h"
#include "base/log.h"
#include "base/process.h"

static const double default_sec = 300;
/* run.sh ends a job that does not start by its own deadline, 300 s, without a name. */
static const double start_share = 0.9, least_start_sec = 20;
/* silent_sec: time for the rank that reports. With the patience of report_stage(), a process is gone 9 s
 * after its deadline. */
static const double silent_sec = 2, gone_sec = 9;

static struct {
    bool running, launched;
    pthread_t thread;
    void (*abort_job)(err_t code);
    atomic_int stage;
    _Atomic double limit_sec;
    const char *_Atomic note; /* of the stage */
    const char *_Atomic what; /* of deadline_begin; NULL: none */
    bool (*may_speak)(void);
    atomic_llong number; /* of the wait; changes with each call */
    atomic_bool stood_still;
    pthread_mutex_t lock;
    double checked_at; /* under lock, as are the rest */
    bool leaves;
    err_t code;
    double leave_at;
} life = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* A wait that took too long. */
static struct {
    deadline_stage_t stage;
    const char *what;
    double limit_sec;
} expired;

static double limit_of(deadline_stage_t stage)
{
    double sec = atomic_load(&life.limit_sec);
    const char *text = stage <= DEADLINE_INIT ? getenv("DPTRAIN_TIMEOUT_START") : NULL;
    double start_sec = text ? strtod(text, NULL) : 0;
    if (start_sec > 0) return start_sec;
    if (stage > DEADLINE_INIT) return sec;
    return start_share * sec < least_start_sec ? least_start_sec : start_share * sec;
}

static void report_call(void)
{
    if (!life.may_speak || life.may_speak())
        log_rank_error("timed out after %g s in \"%s\": the file system does not answer", expired.limit_sec,
                       expired.what);
    else
        clock_sleep(silent_sec);
}

/* A host that misses one of its own ranks reports at once; the others wait, rank 0's host the shortest. The
 * lowest of a host's waiting ranks reports. */
static void report_stage(void)
{
    static const char *const where[] = {"before MPI_Init, while reading options and files", "in MPI_Init", "",
                                        "in MPI_Finalize"};
    deadline_peers_t peers = {.first = true};
    double patience_sec = 0;
    if (expired.stage != DEADLINE_START) {
        deadline_peers_look(expired.stage, &peers);
        bool whole = peers.n_seen == launch_size();
        if (!peers.n_absent && !whole) patience_sec = launch_rank() == 0 ? 1 : 2;
    }
    clock_sleep(patience_sec);
    if (!peers.first) {
        clock_sleep(silent_sec);
        return;
    }
    const char *none = !peers.n_seen || peers.n_absent || peers.found.n > 0 ? ""
                       : peers.n_seen < launch_size()
                           ? "; no rank of this host is missing; check the other hosts"
                           : "; no rank is missing, so one of them or the launcher hangs";
    log_rank_error("timed out after %g s %s%s%s%s", expired.limit_sec, where[expired.stage], peers.found.text,
                   none, atomic_load(&life.note));
}

static void *report_main(void *unused)
{
    (void)unused;
    if (expired.what)
        report_call();
    else
        report_stage();
    life.abort_job(ERR_PEER);
    return NULL;
}

/* Whether a wait is timed now, and with which limit. */
static bool is_timed(deadline_stage_t stage, const char *what)
{
    bool quiet = stage == DEADLINE_RUN || stage == DEADLINE_EXIT;
    return what || (life.launched && !quiet);
}

static void expire(deadline_stage_t stage, const char *what, double limit_sec)
{
    pthread_t thread;
    expired.stage = stage;
    expired.what = what;
    expired.limit_sec = limit_sec;
    deadline_leave(ERR_PEER, gone_sec);
    if (thread_start(&thread, report_main, NULL) != 0) _exit(ERR_PEER);
    pthread_detach(thread);
}

/* Whether the process has decided to leave; ends it when its time is up. */
static bool leave_if_due(void)
{
    pthread_mutex_lock(&life.lock);
    bool leaves = life.leaves;
    if (leaves && clock_sec() >= life.leave_at) _exit((int)life.code);
    pthread_mutex_unlock(&life.lock);
    return leaves;
}

static void note_still(deadline_stage_t stage, double sec)
{
    char text[LAST_PHASE_TEXT];
    snprintf(text, sizeof text, "%s, stopped for %.0f s",
             stage == DEADLINE_START ? "the start, before MPI_Init" : "MPI_Init", sec);
    last_phase_note(text);
    atomic_store(&life.stood_still, true);
}

/* Returns the seconds since the last call, on any thread. */
static double check_gap(void)
{
    deadline_stage_t stage = (deadline_stage_t)atomic_load(&life.stage);
    double limit = limit_of(stage);
    pthread_mutex_lock(&life.lock);
    double now = clock_sec(), gap = now - life.checked_at;
    life.checked_at = now;
    if (stage <= DEADLINE_INIT && gap > 0.5 * limit + clock_check_interval(limit)) note_still(stage, gap);
    pthread_mutex_unlock(&life.lock);
    return gap;
}

static void *deadline_main(void *unused)
{
    (void)unused;
    double waited = 0;
    long long timed = -1;
    for (;;) {
        double limit = limit_of((deadline_stage_t)atomic_load(&life.stage));
        double interval = clock_check_interval(limit);
        clock_sleep(interval);
        /* First, because a rank that was stopped is continued only to leave. */
        double gap = check_gap();
        if (leave_if_due()) continue;
        long long number = atomic_load(&life.number);
        deadline_stage_t stage = (deadline_stage_t)atomic_load(&life.stage);
        const char *what = atomic_load(&life.what);
        waited = number == timed && is_timed(stage, what) ? clock_add_gap(waited, gap, interval) : 0;
        timed = number;
        if (waited >= limit && number == atomic_load(&life.number)) expire(stage, what, limit);
    }
    return NULL;
}

void deadline_open(void (*abort_job)(err_t code))
{
    if (!launch_owns_process()) return; /* the watchdog alone ends a simulated job */
    life.abort_job = abort_job;
    life.launched = launch_present();
    atomic_store(&life.note, "");
    atomic_store(&life.limit_sec, default_sec);
    life.checked_at = clock_sec();
    life.running = thread_start(&life.thread, deadline_main, NULL) == 0;
    deadline_enter(DEADLINE_START, "");
}

void deadline_set(double sec)
{
    atomic_store(&life.limit_sec, sec);
}

void deadline_enter(deadline_stage_t stage, const char *note)
{
    if (!life.running) return;
    atomic_store(&life.note, note);
    atomic_store(&life.stage, (int)stage);
    atomic_fetch_add(&life.number, 1);
    pthread_setname_np(life.thread, deadline_stage_name(stage));
}

void deadline_begin(const char *what, bool (*may_speak)(void))
{
    life.may_speak = may_speak;
    atomic_store(&life.what, what);
    atomic_fetch_add(&life.number, 1);
}

void deadline_end(void)
{
    atomic_store(&life.what, NULL);
    atomic_fetch_add(&life.number, 1);
}

void deadline_leave(err_t code, double sec)
{
    double at = clock_sec() + sec;
    pthread_mutex_lock(&life.lock);
    if (!life.leaves) life.code = code;
    if (!life.leaves || at < life.leave_at) life.leave_at = at;
    life.leaves = true;
    pthread_mutex_unlock(&life.lock);
}

void deadline_check_stopped(void)
{
    if (life.running) check_gap();
}

bool deadline_stood_still(void)
{
    return atomic_load(&life.stood_still);
}

void deadline_exit(err_t code)
{
    deadline_enter(DEADLINE_EXIT, "");
    if (life.launched) deadline_leave(code, atomic_load(&life.limit_sec));
}
