/* SPDX-License-Identifier: MIT */
/* The library: loads NCCL at run time, turns its errors into messages with advice, and calls it such that nothing hangs. A
 * thread watches the communicator: no host thread waits in a collective of the GPUs, so the MPI watchdog cannot see one
 * that a lost peer never joins; both end the job with ERR_PEER. */
#include "cluster/comm/nccl/nccl.h"

#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/process.h"
#include "cluster/comm/nccl_report.h"
#include "cluster/watch/deadline.h"
#include "cluster/watch/watchdog.h"

/* ---- Loading, and errors ---- */
nccl_table_t nccl_lib;

err_t nccl_load(void)
{
    static const char *const names[] = {"libnccl.so.2", "libnccl.so", NULL};
    static const char hint[] = "install NCCL 2 (scripts/install_deps.sh --cuda), or add its folder to "
                               "LD_LIBRARY_PATH";
#define NCCL_ENTRY(name) {"nccl" #name, &nccl_lib.name},
    const dl_function_t functions[] = {NCCL_FUNCTIONS(NCCL_ENTRY)};
    const dl_function_t more[] = {NCCL_REGISTER_FUNCTIONS(NCCL_ENTRY)};
#undef NCCL_ENTRY
    const dl_function_t debug[] = {{"ncclResetDebugInit", &nccl_lib.reset_debug}};
    if (nccl_lib.AllReduce) return ERR_OK;
    err_t err = dl_load(names, functions, sizeof functions / sizeof functions[0], hint);
    if (err != ERR_OK) {
        nccl_lib.AllReduce = NULL;
        return err;
    }
    nccl_lib.can_register = dl_load(names, more, sizeof more / sizeof more[0], hint) == ERR_OK;
    if (dl_load(names, debug, 1, hint) != ERR_OK) nccl_lib.reset_debug = NULL;
    return ERR_OK;
}

/* NCCL's last error message on this rank; never empty. */
static const char *nccl_last_words(ncclResult_t status)
{
    const char *words = nccl_lib.GetLastError(NULL);
    return words && words[0] ? words : nccl_lib.GetErrorString(status);
}

/* Advice, by the words NCCL uses for the usual causes. */
static const char *hint_for(ncclResult_t status, const char *words)
{
    static const struct {
        const char *word, *hint;
    } hints[] = {
        {"Duplicate GPU", "ranks that share a GPU need --comm mpi, or a different NCCL_HOSTID each (slow)"},
        {"peer access", "the GPUs cannot reach each other's memory: try NCCL_P2P_DISABLE=1"},
        {"P2P", "the GPUs cannot reach each other's memory: try NCCL_P2P_DISABLE=1"},
        {"shared memory", "/dev/shm is too small or inaccessible: docker --shm-size, or NCCL_SHM_DISABLE=1"},
        {"/dev/shm", "/dev/shm is too small or inaccessible: docker --shm-size, or NCCL_SHM_DISABLE=1"},
        {"socket interface", "name the network interface in NCCL_SOCKET_IFNAME"},
        {"onnect", "check NCCL_SOCKET_IFNAME (the network interface) and firewalls between the hosts"},
        {"out of memory", "lower --batch or --workspace"},
        {"version", "all hosts need the same NCCL version, and a driver that supports it"},
    };
    for (size_t i = 0; i < sizeof hints / sizeof hints[0]; i++)
        if (strstr(words, hints[i].word)) return hints[i].hint;
    if (status == ncclInvalidUsage) return hints[0].hint;
    if (status == ncclRemoteError) return "see the messages of the other ranks";
    if (status == ncclSystemError || status == ncclInternalError)
        return "run again with NCCL_DEBUG=INFO, check NCCL_SOCKET_IFNAME and the size of /dev/shm, and try "
               "NCCL_P2P_DISABLE=1";
    return "run again with NCCL_DEBUG=INFO";
}

err_t nccl_check(ncclResult_t status, const char *what, const char *file, int line)
{
    if (status == ncclSuccess) return ERR_OK;
    const char *words = nccl_last_words(status), *code = nccl_lib.GetErrorString(status);
    err_t err = status == ncclRemoteError ? ERR_PEER : status == ncclInvalidUsage ? ERR_USAGE : ERR_SYSTEM;
    return err_raise(err, file, line, "NCCL: %s: %s%s%s%s; %s", what, words, words != code ? " (" : "",
                     words != code ? code : "", words != code ? ")" : "", hint_for(status, words));
}

err_t nccl_cuda_check(cudaError_t status, const char *what, const char *file, int line)
{
    if (status == cudaSuccess) return ERR_OK;
    cudaGetLastError(); /* otherwise the next launch would report it */
    return err_raise(ERR_SYSTEM, file, line, "CUDA: %s: %s (%s)", what, cudaGetErrorString(status),
                     cudaGetErrorName(status));
}

/* Such as "2.28.9"; "" if it cannot be loaded. */
void nccl_version(char *out, size_t n_bytes)
{
    int v = 0;
    out[0] = '\0';
    if (nccl_load() != ERR_OK) return;
    if (nccl_lib.GetVersion(&v) != ncclSuccess) v = 0;
    /* Up to 2.8, 2804 means 2.8.4. */
    int major = v < 10000 ? v / 1000 : v / 10000, minor = v < 10000 ? v % 1000 / 100 : v % 10000 / 100;
    snprintf(out, n_bytes, "%d.%d.%d", major, minor, v % 100);
}

void nccl_describe_way(const comm_t *comm, char *out, size_t n_bytes)
{
    debug_facts_t facts;
    char version[32];
    debug_log_read(&facts);
    nccl_version(version, sizeof version);
    bool way = facts.transport[0], net = !way && facts.network[0] && comm->size > 1;
    snprintf(out, n_bytes, "NCCL %s%s%s", version,
             way   ? ", "
             : net ? ", network "
                   : "",
             way   ? facts.transport
             : net ? facts.network
                   : "");
}

/* ---- Calls that may take long ---- */
const double nccl_end_sec = 10;

err_t nccl_lock(nccl_impl_t *impl)
{
    pthread_mutex_lock(&impl->lock);
    if (!impl->broken) return ERR_OK;
    pthread_mutex_unlock(&impl->lock);
    /* The watcher has reported the cause and is ending the job; a second message would only distract. */
    clock_sleep(nccl_end_sec);
    RAISE(ERR_PEER, "NCCL failed earlier");
}

void nccl_unlock(nccl_impl_t *impl)
{
    pthread_mutex_unlock(&impl->lock);
}

err_t nccl_settle_within(nccl_impl_t *impl, ncclResult_t status, const char *what, double sec, bool *done)
{
    double end = clock_sec() + sec;
    *done = true;
    for (int n = 0; status == ncclInProgress; n++) {
        /* A collective takes a moment, start-up seconds. */
        if (n < 1000)
            sched_yield();
        else
            clock_sleep(0.001);
        TRY(nccl_lock(impl));
        ncclResult_t asked = nccl_lib.CommGetAsyncError(impl->handle, &status);
        nccl_unlock(impl);
        if (asked != ncclSuccess) status = asked;
        if (status == ncclInProgress && clock_sec() > end) {
            *done = false;
            return ERR_OK;
        }
    }
    E_NCCL(status, what);
    return ERR_OK;
}

err_t nccl_settle(nccl_impl_t *impl, ncclResult_t status, const char *what)
{
    bool done;
    double sec = impl->comm->options.timeout_sec;
    TRY(nccl_settle_within(impl, status, what, sec, &done));
    if (!done) RAISE(ERR_PEER, "timed out after %g s in \"%s\": NCCL cannot reach a peer", sec, what);
    return ERR_OK;
}

typedef struct ending {
    nccl_end_t call;
    ncclComm_t handle;
} ending_t;

static void *end_handle(void *arg)
{
    ending_t *ending = arg;
    ending->call(ending->handle);
    return NULL;
}

bool nccl_end_within(nccl_end_t call, ncclComm_t handle, double sec)
{
    ending_t *ending = NULL;
    pthread_t thread;
    if (mem_new(sizeof *ending, "the end of NCCL", &ending) != ERR_OK) return false;
    *ending = (ending_t){.call = call, .handle = handle};
    if (pthread_create(&thread, NULL, end_handle, ending) != 0) {
        mem_free(&ending);
        return false;
    }
    struct timespec until = thread_time_after(sec);
    if (pthread_clockjoin_np(thread, NULL, CLOCK_MONOTONIC, &until) != 0) {
        pthread_detach(thread); /* which still uses `ending` */
        return false;
    }
    mem_free(&ending);
    return true;
}

void nccl_abort(nccl_impl_t *impl)
{
    pthread_mutex_lock(&impl->lock);
    ncclComm_t handle = impl->broken ? NULL : impl->handle, direct = impl->broken ? NULL : impl->direct;
    impl->broken = true;
    pthread_mutex_unlock(&impl->lock);
    if (direct) nccl_end_within(nccl_lib.CommAbort, direct, nccl_end_sec);
    if (handle) nccl_end_within(nccl_lib.CommAbort, handle, nccl_end_sec);
}

static ncclResult_t error_of(ncclComm_t handle)
{
    ncclResult_t status = ncclSuccess, asked = nccl_lib.CommGetAsyncError(handle, &status);
    if (asked != ncclSuccess) return asked;
    return status == ncclInProgress ? ncclSuccess : status;
}

bool nccl_find_broken(nccl_impl_t *impl, ncclResult_t *why)
{
    *why = ncclSuccess;
    pthread_mutex_lock(&impl->lock);
    if (!impl->broken) *why = error_of(impl->handle);
    if (!impl->broken && *why == ncclSuccess && impl->direct) *why = error_of(impl->direct);
    if (*why != ncclSuccess) impl->broken = true;
    bool broken = impl->broken;
    pthread_mutex_unlock(&impl->lock);
    return broken;
}

/* ---- The watching thread ---- */
/* silent_sec: time for the rank of this host that reports the error. */
static const double look_sec = 0.05, silent_sec = 3;

/* Without nccl_abort: recorded steps exist, and the main thread waits for one of them. */
static _Noreturn void leave_job(nccl_impl_t *impl)
{
    deadline_leave(ERR_PEER, DEADLINE_LEAVE_SEC);
    impl->comm->options.abort_job(ERR_PEER);
    _exit(ERR_PEER);
}

/* NCCL's own threads are the first to notice a lost peer. */
static void look_for_errors(nccl_impl_t *impl)
{
    ncclResult_t status;
    if (!nccl_find_broken(impl, &status)) return;
    if (!watchdog_take_word()) {
        clock_sleep(silent_sec);
        leave_job(impl);
    }
    log_rank_error(
        "NCCL lost a peer or its network during \"%s\" (the GPU's collective %lld): %s; if a "
        "rank has died, its own message says why; otherwise check the hosts and the network named here, "
        "and restart from the last checkpoint",
        atomic_load(&impl->doing), (long long)atomic_load(&impl->n_finished), nccl_last_words(status));
    leave_job(impl);
}

/* A collective that is unfinished while its rank starts nothing new: the host waits for its GPU, and the GPU
 * for a peer. A rank whose host makes progress is never stuck, however many steps it is ahead of its GPU. */
typedef struct stuck {
    long long progress, n_finished;
    double waited_sec, last_sec;
} stuck_t;

static void look_for_stuck(nccl_impl_t *impl, stuck_t *s)
{
    double now = clock_sec(), gap = now - s->last_sec;
    long long progress = watchdog_progress(), n_finished = atomic_load(&impl->n_finished);
    s->last_sec = now;
    bool open = n_finished > 0 && cudaEventQuery(impl->watched) == cudaErrorNotReady;
    if (!open || progress != s->progress || n_finished != s->n_finished) {
        s->progress = progress;
        s->n_finished = n_finished;
        s->waited_sec = 0;
        if (!impl->is_part) watchdog_device_waits(impl->exchange, n_finished, 0);
        return;
    }
    s->waited_sec = clock_add_gap(s->waited_sec, gap, look_sec);
    double timeout_sec = impl->comm->options.timeout_sec;
    long long sequence = impl->is_recorded ? WATCHDOG_RECORDED : n_finished;
    if (!impl->is_part) watchdog_device_waits(impl->exchange, sequence, s->waited_sec);
    if (s->waited_sec < timeout_sec) return;
    /* A subset has no common sequence numbers, and a single rank has no watchdog. */
    if (!impl->is_part && impl->comm->size > 1) {
        watchdog_device_expired(impl->exchange, sequence, s->waited_sec - timeout_sec);
        return;
    }
    log_rank_error("timed out after %g s in \"%s\" (the GPU's collective %lld)", timeout_sec, impl->exchange,
                   n_finished);
    leave_job(impl);
}

static void *watch_loop(void *arg)
{
    nccl_impl_t *impl = arg;
    nccl_watch_t *watch = &impl->watch;
    stuck_t stuck = {.last_sec = clock_sec()};
    debug_facts_t facts;
    cudaSetDevice(impl->device.index);
    pthread_mutex_lock(&watch->lock);
    while (!watch->stop) {
        struct timespec until = thread_time_after(look_sec);
        pthread_cond_timedwait(&watch->wake, &watch->lock, &until);
        if (watch->stop) break;
        pthread_mutex_unlock(&watch->lock);
        look_for_errors(impl);
        look_for_stuck(impl, &stuck);
        debug_log_read(&facts); /* keeps the log short */
        pthread_mutex_lock(&watch->lock);
    }
    pthread_mutex_unlock(&watch->lock);
    return NULL;
}

err_t nccl_watch_start(nccl_impl_t *impl)
{
    nccl_watch_t *watch = &impl->watch;
    pthread_mutex_init(&watch->lock, NULL);
    thread_cond_init(&watch->wake);
    int status = thread_start(&watch->thread, watch_loop, impl);
    watch->running = status == 0;
    if (status != 0) RAISE(ERR_SYSTEM, "cannot start the thread that watches NCCL: %s", strerror(status));
    return ERR_OK;
}

void nccl_watch_stop(nccl_impl_t *impl)
{
    nccl_watch_t *watch = &impl->watch;
    if (!watch->running) return;
    pthread_mutex_lock(&watch->lock);
    watch->stop = true;
    pthread_cond_signal(&watch->wake);
    pthread_mutex_unlock(&watch->lock);
    pthread_join(watch->thread, NULL);
    pthread_cond_destroy(&watch->wake);
    pthread_mutex_destroy(&watch->lock);
    watch->running = false;
}
