/* SPDX-License-Identifier: MIT */
/* Rank and size by the launcher's environment serve messages and choices before MPI_Init; after it, the communicator is the
 * authority. Threads start with signals blocked, and one receives them; what a thread does and how it ends is left to the
 * callers. The rest asks the kernel: run-queue delays, /proc, access to other processes' memory, shared libraries. */
#include "base/process.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fs.h"
#include "base/sim.h"

/* ---- The launcher ---- */
/* From the innermost launcher outwards. A launcher's daemons may run as ranks of the next launcher, typically as a Slurm
 * step, and pass on its variables. SLURM_NTASKS proves nothing: batch scripts have it too. */
static const struct launcher {
    const char *name, *size, *rank;
    const char *instead; /* starts ranks that MPI sees, before their number; NULL: Open MPI's own mpirun */
} launchers[] = {
    {"mpirun", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK", NULL},
    {"torchrun", "WORLD_SIZE", "RANK", NULL},
    {"horovodrun", "HOROVOD_SIZE", "HOROVOD_RANK", NULL},
    {"mpiexec", "PMI_SIZE", "PMI_RANK", NULL}, /* MPICH, Intel MPI, PALS */
    {"mpirun_rsh", "MV2_COMM_WORLD_SIZE", "MV2_COMM_WORLD_RANK", NULL},
    {"jsrun", "JSM_NAMESPACE_SIZE", "JSM_NAMESPACE_RANK", NULL},
    {"flux run", "FLUX_JOB_SIZE", "FLUX_TASK_RANK", "flux run -o pmi=pmix -n"},
    {"srun", "SLURM_STEP_NUM_TASKS", "SLURM_PROCID", "srun --mpi=pmix -n"},
};
_Static_assert(sizeof launchers / sizeof *launchers == LAUNCHERS, "the launchers of launch_t");
enum { SLURM = LAUNCHERS - 1 };

/* A variable's value, or -1. */
static int number_of(const char *name)
{
    const char *text = getenv(name);
    char *end;
    if (!text || *text < '0' || *text > '9') return -1;
    long value = strtol(text, &end, 10);
    return *end == '\0' && value < 1 << 24 ? (int)value : -1;
}

/* A program started from a shell of srun --pty, of salloc or of a batch script inherits the variables of the shell's
 * step, or of an earlier one, without being one of its tasks. Only a task finds its own process in SLURM_TASK_PID. */
static bool is_in_slurm_shell(void)
{
    static const unsigned long long first_special =
        0xfffffff0; /* SLURM_INTERACTIVE_STEP, SLURM_BATCH_SCRIPT, … */
    const char *step = getenv("SLURM_STEP_ID");
    bool shell = getenv("SLURM_PTY_PORT") || (step && strtoull(step, NULL, 10) >= first_special);
    return shell && number_of("SLURM_TASK_PID") != (int)getpid();
}

launch_t launch_read(void)
{
    launch_t out = {.by = -1, .size = 1};
    if (sim_is_rank()) return out;
    for (int i = LAUNCHERS - 1; i >= 0; i--) {
        const struct launcher *by = &launchers[i];
        int size = number_of(by->size), rank = number_of(by->rank);
        if (rank < 0 || size <= rank || (i == SLURM && is_in_slurm_shell())) continue;
        out.sizes[i] = size;
        out.by = i;
        out.name = by->name;
        out.variable = by->size;
        out.rank = rank;
        out.size = size;
    }
    return out;
}

err_t launch_check(const launch_t *launch, int n_seen, const char *library)
{
    if (launch->size <= n_seen) return ERR_OK;
    /* MPI has found the launcher that agrees; the other's variables are left over. */
    for (int i = 0; n_seen > 1 && i < LAUNCHERS; i++)
        if (launch->sizes[i] == n_seen) return ERR_OK;
    const struct launcher *by = &launchers[launch->by];
    RAISE(
        ERR_USAGE,
        "MPI sees %d rank%s, but %s started %d (%s); start them as one job with '%s %d dptrain ...'%s%s, or each on "
        "its own with 'env -u %s dptrain ...'",
        n_seen, n_seen == 1 ? "" : "s", by->name, launch->size, by->size,
        by->instead ? by->instead : "mpirun -np", launch->size, by->instead ? "" : " of ",
        by->instead ? "" : library, by->size);
}

/* The rank of mpirun, or of another launcher that speaks PMIx or PMI; -1: none. */
static int mpi_rank(void)
{
    static const char *const names[] = {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK"};
    int rank = -1;
    for (int i = 0; i < 3 && rank < 0; i++) rank = number_of(names[i]);
    return rank;
}

bool launch_present(void)
{
    return sim_is_rank() || mpi_rank() >= 0;
}

int launch_rank(void)
{
    int rank = sim_is_rank() ? sim_rank() : mpi_rank();
    return rank > 0 ? rank : 0;
}

int launch_size(void)
{
    if (sim_is_rank()) return sim_size();
    return launch_present() ? launch_read().size : 1;
}

void launch_host_name(char *out, size_t n_bytes)
{
    char name[256] = "";
    if (sim_is_rank())
        snprintf(name, sizeof name, "%s", sim_host_name());
    else if (gethostname(name, sizeof name - 1) != 0 || !name[0])
        strcpy(name, "localhost");
    snprintf(out, n_bytes, "%.*s", (int)n_bytes - 1, name);
}

bool launch_owns_process(void)
{
    return !sim_is_rank();
}

/* ---- Threads and signals ---- */
bool thread_is_main(void)
{
    return gettid() == getpid();
}

int thread_cond_init(pthread_cond_t *out)
{
    pthread_condattr_t monotonic;
    int status = pthread_condattr_init(&monotonic);
    if (status != 0) return status;
    status = pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    if (status == 0) status = pthread_cond_init(out, &monotonic);
    pthread_condattr_destroy(&monotonic);
    return status;
}

struct timespec thread_time_after(double sec)
{
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    long ns = at.tv_nsec + (long)(1e9 * (sec - (double)(time_t)sec));
    at.tv_sec += (time_t)sec + ns / 1000000000;
    at.tv_nsec = ns % 1000000000;
    return at;
}

static sigset_t all_but_faults(void)
{
    static const int faults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP};
    sigset_t set;
    sigfillset(&set);
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) sigdelset(&set, faults[i]);
    return set;
}

int thread_start(pthread_t *out, void *(*run)(void *), void *argument)
{
    sigset_t blocked = all_but_faults(), before;
    pthread_sigmask(SIG_SETMASK, &blocked, &before);
    int status = pthread_create(out, NULL, run, argument);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return status;
}

static _Noreturn void *receive(void *unused)
{
    (void)unused;
    for (;;) pause();
}

void thread_receive_signals(void)
{
    sigset_t blocked = all_but_faults();
    pthread_t thread;
    if (!launch_owns_process()) return;
    if (pthread_create(&thread, NULL, receive, NULL) != 0) return;
    pthread_detach(thread);
    sigdelset(&blocked, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &blocked, NULL);
}

static void take_broken_pipe(int signal_number)
{
    const int saved = errno;
    struct pollfd outputs[] = {{.fd = STDOUT_FILENO}, {.fd = STDERR_FILENO}};
    if (poll(outputs, 2, 0) > 0 && ((outputs[0].revents | outputs[1].revents) & POLLERR)) {
        signal(signal_number, SIG_DFL);
        raise(signal_number);
    }
    errno = saved;
}

void process_survive_lost_peers(void)
{
    const struct sigaction action = {.sa_handler = take_broken_pipe, .sa_flags = SA_RESTART};
    struct sigaction before;
    if (sigaction(SIGPIPE, NULL, &before) == 0 && before.sa_handler == SIG_DFL)
        sigaction(SIGPIPE, &action, NULL);
}

/* ---- Run-queue delays ---- */
enum { CALM_INTERVALS = 10 };
static const double busy_share = 0.2, calm_share = 0.1;

static int64_t read_waited(const contention_t *c)
{
    char text[96];
    long long nsec;
    ssize_t n = c->fd >= 0 ? pread(c->fd, text, sizeof text - 1, 0) : 0;
    text[n > 0 ? n : 0] = '\0';
    return sscanf(text, "%*d %lld", &nsec) == 1 ? nsec : 0;
}

void contention_open(contention_t *c)
{
    /* Simulated ranks share a thread, and only the simulation's time counts. */
    const bool owns = launch_owns_process();
    *c = (contention_t){.fd = owns ? open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC) : -1};
    c->waited_nsec = read_waited(c);
    c->since_sec = clock_sec();
}

void contention_close(contention_t *c)
{
    if (c->fd >= 0) close(c->fd);
    c->fd = -1;
}

/* The share since the last update, at a time and a counter just read. */
static double share_at(const contention_t *c, double now_sec, int64_t waited_nsec)
{
    const double sec = now_sec - c->since_sec;
    return sec > 0 ? 1e-9 * (double)(waited_nsec - c->waited_nsec) / sec : 0;
}

double contention_share(const contention_t *c)
{
    return share_at(c, clock_sec(), read_waited(c));
}

bool contention_update(contention_t *c)
{
    const double now_sec = clock_sec();
    const int64_t waited_nsec = read_waited(c);
    const double share = share_at(c, now_sec, waited_nsec);
    c->waited_nsec = waited_nsec;
    c->since_sec = now_sec;
    c->n_calm = share < calm_share ? c->n_calm + 1 : 0;
    if (share > busy_share)
        c->competes = true;
    else if (c->n_calm >= CALM_INTERVALS)
        c->competes = false;
    return c->competes;
}

/* ---- Other processes ---- */
bool process_parse(const char *text, process_t *out)
{
    long long user, system, started;
    /* The name may contain blanks and parentheses. */
    const char *open = strchr(text, '('), *close = strrchr(text, ')');
    *out = (process_t){.pid = atoi(text)};
    if (!open || !close || close < open) return false;
    snprintf(out->name, sizeof out->name, "%.*s", (int)(close - open - 1), open + 1);
    return sscanf(close + 1,
                  " %c %d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lld %lld %*d %*d %*d %*d %*d %*d %lld %*u "
                  "%*d %*u %*u %*u %*u %*u %*u %*u %*u %*u %*u %*u %*u %*u %*d %d",
                  &out->state, &out->parent, &user, &system, &started, &out->cpu) == 6 &&
           (out->ticks = user + system, out->started = started, out->pid > 0);
}

bool process_read(const char *proc, long pid, process_t *out)
{
    char path[FS_PATH_MAX], text[1024];
    int n = snprintf(path, sizeof path, "%s/%ld/stat", proc, pid);
    return n < (int)sizeof path && fs_read_line(path, text, sizeof text) && process_parse(text, out);
}

/* A child tries the calls on its parent, because no rule of the kernel lets it: it is as foreign as another rank. A
 * filter may kill the caller, and every process may read itself. */
enum { OPEN, FILTERED, CLOSED };

static peer_memory_t found;
static pthread_once_t found_once = PTHREAD_ONCE_INIT;
static char probed[8];

static bool reaches(pid_t pid)
{
    char here[sizeof probed];
    const struct iovec local = {here, sizeof here}, remote = {probed, sizeof probed};
    return process_vm_readv(pid, &local, 1, &remote, 1, 0) == (ssize_t)sizeof here &&
           process_vm_writev(pid, &local, 1, &remote, 1, 0) == (ssize_t)sizeof here;
}

/* Only calls that are safe after a fork of one thread of several. */
static int try_parent(pid_t parent)
{
    prctl(PR_SET_DUMPABLE, 0, 0, 0, 0); /* no core file */
    if (reaches(parent)) return OPEN;
    return reaches(getpid()) ? CLOSED : FILTERED;
}

static int try_in_child(void)
{
    int status = 0;
    const pid_t parent = getpid(), child = fork();
    if (child == 0) _exit(try_parent(parent));
    if (child < 0) return OPEN;
    while (waitpid(child, &status, 0) < 0)
        if (errno != EINTR) return OPEN;
    return WIFEXITED(status) ? WEXITSTATUS(status) : FILTERED;
}

static void probe(void)
{
    char yama[16] = "";
    if (!launch_owns_process()) return;
    fs_read_line("/proc/sys/kernel/yama/ptrace_scope", yama, sizeof yama);
    /* As MPI does: at 1 that is enough. */
    bool ask = yama[0] && yama[0] != '0' && prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0) == 0;
    int result = try_in_child();
    if (ask) prctl(PR_SET_PTRACER, 0, 0, 0, 0);
    if (result == FILTERED)
        found = (peer_memory_t){true, "a seccomp filter, such as a container's",
                                "start the container with --cap-add=SYS_PTRACE (Kubernetes: "
                                "securityContext.capabilities.add), or a seccomp profile that allows "
                                "process_vm_readv and process_vm_writev"};
    else if (result == CLOSED && yama[0] >= '2')
        found = (peer_memory_t){
            true, yama[0] == '2' ? "kernel.yama.ptrace_scope = 2" : "kernel.yama.ptrace_scope = 3",
            "sysctl kernel.yama.ptrace_scope=1 on the host"};
    else if (result == CLOSED)
        found = (peer_memory_t){true, "a security module, or a program file that its user cannot read",
                                "chmod a+r the program; look for denials of ptrace in dmesg"};
}

const peer_memory_t *peer_memory(void)
{
    pthread_once(&found_once, probe);
    return &found;
}

/* ---- Shared libraries ---- */
static err_t dl_find_symbols(void *library, const char *name, const dl_function_t *functions, int n,
                             const char *hint)
{
    for (int i = 0; i < n; i++) {
        void *symbol = dlsym(library, functions[i].name);
        if (!symbol) RAISE(ERR_SYSTEM, "%s has no function %s; %s", name, functions[i].name, hint);
        memcpy(functions[i].pointer, &symbol, sizeof symbol);
    }
    return ERR_OK;
}

/* The library stays open until the process ends. */
err_t dl_load(const char *const *names, const dl_function_t *functions, int n, const char *hint)
{
    if (dlsym(RTLD_DEFAULT, functions[0].name))
        return dl_find_symbols(RTLD_DEFAULT, names[0], functions, n, hint);
    char reason[256] = "";
    for (int i = 0; names[i]; i++) {
        void *library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
        if (library) return dl_find_symbols(library, names[i], functions, n, hint);
        const char *words = dlerror();
        if (i == 0) snprintf(reason, sizeof reason, "%s", words ? words : names[i]);
    }
    RAISE(ERR_SYSTEM, "%s cannot be opened: %s; %s", names[0], reason, hint);
}
