/* SPDX-License-Identifier: MIT */
/* Preloaded into the ranks by tests/attack/attack.sh: stops, kills, delays, fails or alters the n-th call of a function.
 *
 *   DPTRAIN_FAULT   "rank=1 call=fsync n=3 act=fail:EIO path=ckpt"; without it only the steps are counted
 *     rank    the rank that fails [every rank]
 *     call    the function's name
 *     n       which call, from 1, of those that match [1]; times: how many from then on, 0: all [1]
 *     path    counts only calls on files whose path contains this
 *     min     counts only allocations of at least so many bytes, and MPI_Allreduce of so many elements
 *     own=1   counts only allocations of the program itself, not of libraries
 *     act     stop kill segv abort term exit:CODE fail:ERRNO delay:SEC block flip short drop jump:SEC fill:BYTE
 *     pos, bit  where a flip strikes: percent of the bytes [50], and the bit [4]; from 8 on, of the number of 32 bits there
 *     start=1  only a process that starts later
 *     id      strikes once, even if the ranks start again; pace: as DPTRAIN_FAULT_PACE
 *   Besides functions, call is
 *     phase   the rank's phase, which run.sh tells, contains `path`
 *     compared  weights, as soon as a comparison of replicas has read them
 *     weights momentum  after the n-th comparison of replicas, and `after` seconds; states: before it, when averaged
 *     mpi_send  the data that an MPI_Allgather of at most 64 KiB sends
 *   DPTRAIN_FAULT_FILE   holds the fault, and may change at any time; only ranks of mpirun read it
 *   DPTRAIN_FAULT_LOG    file that gets a line when the fault strikes; FILE.steps grows by a byte per recorded step
 *   DPTRAIN_FAULT_COUNT  file, extended by the rank, that gets the number of calls of each function at the end
 *   DPTRAIN_FAULT_PACE   seconds to wait before each recorded step, so that a job lasts long enough to be hit */
#define _GNU_SOURCE
#include "shim.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define MAX_COUNTERS 128
#define LONGEST      64

static struct {
    bool armed, own;
    char call[LONGEST], path[LONGEST], act_text[LONGEST], id[LONGEST];
    long n, times, min, pos, bit;
    double after_sec;
    act_t act;
    double value; /* signal, exit code, errno, seconds or byte */
    uintptr_t own_begin, own_end;
    atomic_long seen;
} fault;

static struct {
    char name[LONGEST];
    atomic_long n;
} counters[MAX_COUNTERS];
static atomic_int n_counters;
static pthread_mutex_t counters_lock = PTHREAD_MUTEX_INITIALIZER;
static char log_path[PATH_MAX], count_path[PATH_MAX];
static double pace_sec;
static bool ready;

static const struct {
    const char *name;
    int value;
} errors[] = {{"EIO", EIO},       {"ENOSPC", ENOSPC}, {"EROFS", EROFS},   {"ENOMEM", ENOMEM},
              {"EAGAIN", EAGAIN}, {"EMFILE", EMFILE}, {"ESTALE", ESTALE}, {"EACCES", EACCES},
              {"EDQUOT", EDQUOT}, {"ENOENT", ENOENT}},
  signals[] = {{"stop", SIGSTOP},
               {"kill", SIGKILL},
               {"segv", SIGSEGV},
               {"abort", SIGABRT},
               {"term", SIGTERM}},
  acts[] = {{"exit", ACT_EXIT},   {"fail", ACT_FAIL}, {"delay", ACT_DELAY},
            {"block", ACT_BLOCK}, {"flip", ACT_FLIP}, {"short", ACT_SHORT},
            {"drop", ACT_DROP},   {"jump", ACT_JUMP}, {"fill", ACT_FILL}};

static const char *environment_rank(void)
{
    const char *rank = getenv("OMPI_COMM_WORLD_RANK");
    return rank ? rank : "0";
}

static _Noreturn void refuse(const char *text)
{
    dprintf(2, "shim: invalid DPTRAIN_FAULT: %s\n", text);
    _exit(99);
}

/* The action after "act=", with its value after a colon. */
static void read_act(char *text)
{
    snprintf(fault.act_text, sizeof fault.act_text, "%s", text);
    char *value = strchr(text, ':');
    if (value) *value++ = '\0';
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++)
        if (!strcmp(text, signals[i].name)) fault.act = ACT_SIGNAL, fault.value = signals[i].value;
    for (size_t i = 0; i < sizeof acts / sizeof *acts; i++)
        if (!strcmp(text, acts[i].name))
            fault.act = (act_t)acts[i].value, fault.value = value ? atof(value) : 0;
    for (size_t i = 0; value && i < sizeof errors / sizeof *errors; i++)
        if (!strcmp(value, errors[i].name)) fault.value = errors[i].value;
    if (fault.act == ACT_NONE) refuse(text);
}

/* Whether a start of this rank before this one was struck by the fault. */
static bool struck_before(void)
{
    char text[1 << 16], wanted[LONGEST + 8];
    int fd = fault.id[0] ? (int)syscall(SYS_openat, AT_FDCWD, log_path, O_RDONLY | O_CLOEXEC) : -1;
    if (fd < 0) return false;
    ssize_t n = syscall(SYS_read, fd, text, sizeof text - 1);
    syscall(SYS_close, fd);
    text[n > 0 ? n : 0] = '\0';
    snprintf(wanted, sizeof wanted, " id=%s ", fault.id);
    return strstr(text, wanted) != NULL;
}

void shim_read_fault(const char *spec)
{
    char text[512], *rest = NULL;
    bool here = true;
    snprintf(text, sizeof text, "%s", spec);
    uintptr_t own_begin = fault.own_begin, own_end = fault.own_end;
    fault.armed = false;
    memset(&fault, 0, sizeof fault);
    fault.own_begin = own_begin;
    fault.own_end = own_end;
    fault.n = fault.times = 1;
    fault.pos = 50;
    fault.bit = 4;
    for (char *word = strtok_r(text, " ", &rest); word; word = strtok_r(NULL, " ", &rest)) {
        char *value = strchr(word, '=');
        if (!value) refuse(word);
        *value++ = '\0';
        if (!strcmp(word, "rank"))
            here = !strcmp(value, environment_rank());
        else if (!strcmp(word, "call"))
            snprintf(fault.call, sizeof fault.call, "%s", value);
        else if (!strcmp(word, "path"))
            snprintf(fault.path, sizeof fault.path, "%s", value);
        else if (!strcmp(word, "n"))
            fault.n = atol(value);
        else if (!strcmp(word, "times"))
            fault.times = atol(value);
        else if (!strcmp(word, "min"))
            fault.min = atol(value);
        else if (!strcmp(word, "start"))
            here = here && !shim_follows();
        else if (!strcmp(word, "pos"))
            fault.pos = atol(value);
        else if (!strcmp(word, "bit"))
            fault.bit = atol(value);
        else if (!strcmp(word, "after"))
            fault.after_sec = atof(value);
        else if (!strcmp(word, "pace"))
            pace_sec = atof(value);
        else if (!strcmp(word, "id"))
            snprintf(fault.id, sizeof fault.id, "%s", value);
        else if (!strcmp(word, "own"))
            fault.own = true;
        else if (!strcmp(word, "act"))
            read_act(value);
        else
            refuse(word);
    }
    if (!fault.call[0] && fault.act == ACT_NONE) return;
    if (!fault.call[0] || fault.act == ACT_NONE) refuse(spec);
    fault.armed = here && !struck_before();
}

/* The addresses of the program itself. */
static void read_own_range(void)
{
    char line[PATH_MAX + 128], exe[PATH_MAX] = "";
    if (readlink("/proc/self/exe", exe, sizeof exe - 1) <= 0) return;
    FILE *maps = fopen("/proc/self/maps", "r");
    if (!maps) return;
    while (fgets(line, sizeof line, maps)) {
        unsigned long begin, end;
        if (!strstr(line, exe) || sscanf(line, "%lx-%lx", &begin, &end) != 2) continue;
        if (!fault.own_begin) fault.own_begin = begin;
        fault.own_end = end;
    }
    fclose(maps);
}

__attribute__((constructor)) static void shim_begin(void)
{
    const char *log = getenv("DPTRAIN_FAULT_LOG"), *count = getenv("DPTRAIN_FAULT_COUNT");
    const char *spec = getenv("DPTRAIN_FAULT"), *pace = getenv("DPTRAIN_FAULT_PACE");
    if (log) snprintf(log_path, sizeof log_path, "%s", log);
    if (count) snprintf(count_path, sizeof count_path, "%s.%s", count, environment_rank());
    if (pace) pace_sec = atof(pace);
    read_own_range();
    if (spec && *spec) shim_read_fault(spec);
    ready = true;
    if (getenv("OMPI_COMM_WORLD_RANK")) shim_control_begin();
}

static void append(const char *path, const char *text)
{
    int fd = (int)syscall(SYS_openat, AT_FDCWD, path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (fd < 0) return;
    if (syscall(SYS_write, fd, text, strlen(text)) < 0) {}
    syscall(SYS_close, fd);
}

__attribute__((destructor)) static void shim_end(void)
{
    char line[LONGEST + 32];
    for (int i = 0; count_path[0] && i < atomic_load(&n_counters); i++) {
        snprintf(line, sizeof line, "%s %ld\n", counters[i].name, atomic_load(&counters[i].n));
        append(count_path, line);
    }
}

static void wait_sec(double sec)
{
    struct timespec left = {(time_t)sec, (long)(1e9 * (sec - (double)(time_t)sec))};
    while (nanosleep(&left, &left) != 0 && errno == EINTR) {}
}

static void count_call(const char *name)
{
    int n = atomic_load(&n_counters);
    for (int i = 0; i < n; i++)
        if (!strcmp(counters[i].name, name)) {
            atomic_fetch_add(&counters[i].n, 1);
            return;
        }
    pthread_mutex_lock(&counters_lock);
    n = atomic_load(&n_counters);
    if (n < MAX_COUNTERS) {
        snprintf(counters[n].name, LONGEST, "%s", name);
        atomic_store(&counters[n].n, 1);
        atomic_store(&n_counters, n + 1);
    }
    pthread_mutex_unlock(&counters_lock);
}

static const char *file_class(const char *path)
{
    return strstr(path, "ckpt")            ? "ckpt"
           : strstr(path, "metrics.jsonl") ? "metrics.jsonl"
           : strstr(path, "ubyte")         ? "ubyte"
                                           : "";
}

/* " step=N": the last step that rank 0 recorded. */
static void read_step(char *out, size_t n_out)
{
    char path[PATH_MAX + 8], text[24] = "";
    snprintf(path, sizeof path, "%s.step", log_path);
    int fd = (int)syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return;
    if (syscall(SYS_read, fd, text, sizeof text - 1) > 0) snprintf(out, n_out, " step=%ld", atol(text));
    syscall(SYS_close, fd);
}

static void write_step(long step)
{
    char path[PATH_MAX + 8], text[24];
    snprintf(path, sizeof path, "%s.step", log_path);
    int n = snprintf(text, sizeof text, "%-20ld\n", step);
    int fd = (int)syscall(SYS_openat, AT_FDCWD, path, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
    if (fd < 0) return;
    if (syscall(SYS_pwrite64, fd, text, (size_t)n, 0) < 0) {}
    syscall(SYS_close, fd);
}

/* Whether the fault strikes this call. What ends or delays the process happens here; the rest is left to the caller. */
act_t shim_strike(const char *call, const char *path, size_t n_bytes, const void *caller)
{
    uintptr_t from = (uintptr_t)caller;
    bool own = from >= fault.own_begin && from < fault.own_end;
    if (!ready) return ACT_NONE;
    if (count_path[0] && (!caller || own)) {
        char name[LONGEST];
        snprintf(name, sizeof name, "%s%s%s", call, path && *file_class(path) ? ":" : "",
                 path ? file_class(path) : "");
        count_call(name);
    }
    if (!fault.armed || strcmp(call, fault.call) != 0 || (long)n_bytes < fault.min) return ACT_NONE;
    if ((fault.path[0] && !(path && strstr(path, fault.path))) || (fault.own && caller && !own))
        return ACT_NONE;
    long seen = atomic_fetch_add(&fault.seen, 1) + 1;
    if (seen < fault.n || (fault.times > 0 && seen >= fault.n + fault.times)) return ACT_NONE;
    if (seen == fault.n) {
        char line[PATH_MAX + 512], step[32] = "", id[LONGEST + 8] = "";
        struct timespec now;
        syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &now);
        if (fault.id[0]) snprintf(id, sizeof id, " id=%s", fault.id);
        if (fault.id[0]) read_step(step, sizeof step);
        snprintf(line, sizeof line, "struck%s%s at=%ld.%02ld rank=%s call=%s n=%ld act=%s%s%s\n", id, step,
                 (long)now.tv_sec, now.tv_nsec / 10000000, environment_rank(), call, seen, fault.act_text,
                 path ? " path=" : "", path ? path : "");
        append(log_path, line);
    }
    switch (fault.act) {
    case ACT_SIGNAL:
        /* The program's own handler must not soften a crash. */
        if (fault.value == SIGSEGV || fault.value == SIGABRT) signal((int)fault.value, SIG_DFL);
        kill(getpid(), (int)fault.value);
        return ACT_NONE;
    case ACT_EXIT:
        _exit((int)fault.value);
    case ACT_DELAY:
        wait_sec(fault.value);
        return ACT_NONE;
    case ACT_BLOCK:
        for (;;) wait_sec(3600);
    case ACT_FAIL:
        errno = (int)fault.value;
        return ACT_FAIL;
    default:
        return fault.act;
    }
}

void shim_flip(void *data, size_t n_bytes)
{
    size_t at = n_bytes * (size_t)fault.pos / 100;
    if (fault.bit >= 8) at = at / 4 * 4 + (size_t)fault.bit / 8;
    if (data && n_bytes > 0)
        ((unsigned char *)data)[at < n_bytes ? at : n_bytes - 1] ^= (unsigned char)(1u << fault.bit % 8);
}

const char *shim_path(int fd, char path[PATH_MAX])
{
    char link[64];
    int error = errno;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t n = readlink(link, path, PATH_MAX - 1);
    path[n > 0 ? n : 0] = '\0';
    errno = error;
    return path;
}

double shim_value(void)
{
    return fault.value;
}

bool shim_ready(void)
{
    return ready;
}

bool shim_strikes(const char *call)
{
    return fault.armed && !strcmp(fault.call, call);
}

double shim_after(void)
{
    return fault.after_sec;
}

const char *shim_wanted_phase(void)
{
    return fault.armed && !strcmp(fault.call, "phase") && atomic_load(&fault.seen) < fault.n ? fault.path
                                                                                             : NULL;
}

void shim_step(const char *record)
{
    const char *step = strstr(record, "\"step\":");
    if (log_path[0] && step && getenv("DPTRAIN_FAULT_FILE")) write_step(atol(step + 7));
    char steps[PATH_MAX + 8];
    snprintf(steps, sizeof steps, "%s.steps", log_path);
    if (log_path[0]) append(steps, ".");
    if (pace_sec > 0) wait_sec(pace_sec);
}
