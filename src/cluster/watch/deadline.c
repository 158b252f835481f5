/* SPDX-License-Identifier: MIT */
/* The thread that keeps the deadlines of a process. It never does what could block: messages and MPI_Abort are left to
 * another thread, which it outlives if need be. This job's other ranks on this host are found by the environment of their
 * processes, and each one's stage by the name of its thread. What this rank was last doing is in a page of shared memory. */
#include "cluster/watch/deadline.h"

#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fs.h"
#include "base/log.h"
#include "base/process.h"

/* ---- What this rank was last doing ---- */
/* The page that outlives a killed rank, until run.sh removes it. */
static char page_path[128];
static char *page;

void last_phase_open(void)
{
    static const char allowed[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
    const char *job = getenv("DPTRAIN_JOB");
    if (page || !job || !job[0] || job[strspn(job, allowed)] != '\0') return;
    int n = snprintf(page_path, sizeof page_path, "/dev/shm/dptrain-%s.%d", job, launch_rank());
    if (n < 0 || n >= (int)sizeof page_path) return;
    int file = open(page_path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (file < 0) return;
    /* With space reserved, no store can fail later. */
    void *mapped = posix_fallocate(file, 0, LAST_PHASE_TEXT) == 0
                       ? mmap(NULL, LAST_PHASE_TEXT, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0)
                       : MAP_FAILED;
    close(file);
    if (mapped == MAP_FAILED) {
        unlink(page_path);
        return;
    }
    page = mapped;
    last_phase_note("starting");
}

void last_phase_close(void)
{
    if (page) unlink(page_path);
}

void last_phase_note(const char *text)
{
    if (!page) return;
    size_t n = strnlen(text, LAST_PHASE_TEXT - 1);
    memcpy(page, text, n);
    page[n] = '\0';
}

/* ---- The other ranks of this host ---- */
enum { MAX_NAMED = 4, MAX_RANKS = 1024, ENVIRON_BYTES = 1 << 18 };

/* Names of the thread that shows a stage. */
static const char *const stage_names[DEADLINE_N_STAGES] = {"dp-start", "dp-init", "dp-run", "dp-finalize",
                                                           "dp-exit"};

/* The other ranks of this host as /proc shows them, without MPI. */
typedef struct peers {
    int n_seen;      /* ranks of this job on this host, including this one; 0: unknown */
    int n_absent;    /* of them: stopped, or in an earlier stage; and those that do not run */
    bool first;      /* no lower rank of this host is waiting in the same stage */
    message_t found; /* "; rank 1 on node-a is stopped", … */
} peers_t;

typedef struct look {
    deadline_stage_t stage;
    peers_t *out;
    int n_named;
    bool seen[MAX_RANKS];
    char program[PATH_MAX], host[65];
    const char *job;
} look_t;

/* The value of a variable in a process's environment. */
static const char *find_variable(const char *environment, size_t n_bytes, const char *name)
{
    size_t n_name = strlen(name);
    for (size_t at = 0; at < n_bytes; at += strlen(environment + at) + 1)
        if (strncmp(environment + at, name, n_name) == 0 && environment[at + n_name] == '=')
            return environment + at + n_name + 1;
    return NULL;
}

/* The rank of a process; −1 if it is not one of this job's. */
static int rank_of(const look_t *look, long pid)
{
    static char environment[ENVIRON_BYTES];
    char path[64], program[PATH_MAX] = "";
    size_t n = 0;
    snprintf(path, sizeof path, "/proc/%ld/exe", pid);
    if (readlink(path, program, sizeof program - 1) < 0 || strcmp(program, look->program) != 0) return -1;
    snprintf(path, sizeof path, "/proc/%ld/environ", pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return -1;
    int reason = fs_read_all(fd, FS_HERE, environment, sizeof environment - 1, &n);
    close(fd);
    environment[n] = '\0';
    const char *job = reason ? NULL : find_variable(environment, n, "PMIX_NAMESPACE");
    const char *rank = job && strcmp(job, look->job) == 0 ? find_variable(environment, n, "PMIX_RANK") : NULL;
    return rank && isdigit((unsigned char)rank[0]) ? atoi(rank) : -1;
}

/* DEADLINE_N_STAGES: unknown, before the first line of main. */
static deadline_stage_t stage_of(long pid)
{
    char path[300], name[32];
    deadline_stage_t stage = DEADLINE_N_STAGES;
    snprintf(path, sizeof path, "/proc/%ld/task", pid);
    DIR *tasks = opendir(path);
    struct dirent *entry;
    while (tasks && (entry = readdir(tasks))) {
        snprintf(path, sizeof path, "/proc/%ld/task/%.20s/comm", pid, entry->d_name);
        if (entry->d_name[0] == '.' || !fs_read_line(path, name, sizeof name)) continue;
        for (int i = 0; i < DEADLINE_N_STAGES; i++)
            if (strcmp(name, stage_names[i]) == 0) stage = (deadline_stage_t)i;
    }
    if (tasks) closedir(tasks);
    return stage;
}

/* What keeps a rank from this one's stage; NULL: nothing. */
static const char *what_keeps(const look_t *look, char state, deadline_stage_t stage)
{
    if (state == 'T' || state == 't') return "is stopped (SIGSTOP, or a debugger)";
    if (state == 'Z' || state == 'X') return "has ended";
    if (stage == DEADLINE_N_STAGES) return "has not started";
    if (stage >= look->stage) return NULL;
    return state == 'D'                   ? "waits for a disk or a device"
           : look->stage == DEADLINE_INIT ? "has not reached MPI_Init"
                                          : "has not reached MPI_Finalize";
}

static void judge_process(look_t *look, long pid)
{
    int rank = rank_of(look, pid);
    if (rank < 0) return;
    look->out->n_seen++;
    if (rank < MAX_RANKS) look->seen[rank] = true;
    if (rank == launch_rank()) return;
    deadline_stage_t stage = stage_of(pid);
    process_t process;
    const char *why = what_keeps(look, process_read("/proc", pid, &process) ? process.state : '\0', stage);
    if (!why && stage == look->stage && rank < launch_rank()) look->out->first = false;
    if (!why) return;
    look->out->n_absent++;
    if (look->n_named++ < MAX_NAMED)
        message_append(&look->out->found, "; rank %d on %s (process %ld) %s", rank, look->host, pid, why);
}

/* Ranks of this host that are missing in /proc: their numbers if the job has only this host, else how many. */
static void add_gone(look_t *look)
{
    const char *text = getenv("OMPI_COMM_WORLD_LOCAL_SIZE");
    int n_local = text ? atoi(text) : 0, n_gone = n_local - look->out->n_seen;
    if (look->out->n_seen == 0 || n_gone <= 0) return;
    look->out->n_absent += n_gone;
    if (n_local != launch_size() || n_local > MAX_RANKS || n_gone > MAX_NAMED) {
        message_append(&look->out->found, "; %d of the %d ranks of %s %s not running", n_gone, n_local,
                       look->host, n_gone == 1 ? "is" : "are");
        return;
    }
    for (int rank = 0; rank < n_local; rank++)
        if (!look->seen[rank])
            message_append(&look->out->found, "; rank %d on %s is not running", rank, look->host);
}

static void look_at_peers(deadline_stage_t stage, peers_t *out)
{
    look_t look = {.stage = stage, .out = out, .job = getenv("PMIX_NAMESPACE")};
    *out = (peers_t){.first = true};
    gethostname(look.host, sizeof look.host - 1);
    DIR *all = look.job && readlink("/proc/self/exe", look.program, sizeof look.program - 1) > 0
                   ? opendir("/proc")
                   : NULL;
    struct dirent *entry;
    while (all && (entry = readdir(all)))
        if (isdigit((unsigned char)entry->d_name[0])) judge_process(&look, strtol(entry->d_name, NULL, 10));
    if (all) closedir(all);
    if (look.n_named > MAX_NAMED)
        message_append(&look.out->found, "; and %d more on %s", look.n_named - MAX_NAMED, look.host);
    add_gone(&look);
    process_t launcher;
    if (process_read("/proc", getppid(), &launcher) && launcher.state == 'T')
        message_append(&look.out->found, "; %s on %s (process %d), which started it, is stopped",
                       launcher.name, look.host, launcher.pid);
}

/* ---- The deadlines ---- */
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

/* A host that misses one of its own ranks reports at once; the others wait, rank 0's host the shortest. The
 * lowest of a host's waiting ranks reports. */
static void report_stage(void)
{
    static const char *const where[] = {"before MPI_Init, while reading options and files", "in MPI_Init", "",
                                        "in MPI_Finalize"};
    peers_t peers = {.first = true};
    double patience_sec = 0;
    if (expired.stage != DEADLINE_START) {
        look_at_peers(expired.stage, &peers);
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
    if (!expired.what)
        report_stage();
    else if (!life.may_speak || life.may_speak())
        log_rank_error("timed out after %g s in \"%s\": the file system does not answer", expired.limit_sec,
                       expired.what);
    else
        clock_sleep(silent_sec);
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

/* Returns the seconds since the last call, on any thread. */
static double check_gap(void)
{
    deadline_stage_t stage = (deadline_stage_t)atomic_load(&life.stage);
    double limit = limit_of(stage);
    pthread_mutex_lock(&life.lock);
    double now = clock_sec(), gap = now - life.checked_at;
    life.checked_at = now;
    if (stage <= DEADLINE_INIT && gap > 0.5 * limit + clock_check_interval(limit)) {
        char text[LAST_PHASE_TEXT];
        snprintf(text, sizeof text, "%s, stopped for %.0f s",
                 stage == DEADLINE_START ? "the start, before MPI_Init" : "MPI_Init", gap);
        last_phase_note(text);
        atomic_store(&life.stood_still, true);
    }
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
    pthread_setname_np(life.thread, stage_names[stage]);
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
