/* SPDX-License-Identifier: MIT */
/* The thread that watches an NCCL communicator. No host thread waits in a collective of the GPUs, so the MPI
 * watchdog cannot see one that a lost peer never joins: this thread does, and it polls NCCL for errors. Both
 * end the job with ERR_PEER. */
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/deadline.h"
#include "base/log.h"
#include "base/process.h"
#include "cluster/comm/debug_log.h"
#include "cluster/comm/nccl/nccl.h"
#include "cluster/comm/watchdog.h"

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
        if (!impl->is_part) watchdog_device_waits("gradient allreduce", n_finished, 0);
        return;
    }
    s->waited_sec = clock_add_gap(s->waited_sec, gap, look_sec);
    double timeout_sec = impl->comm->options.timeout_sec;
    long long sequence = impl->is_recorded ? WATCHDOG_RECORDED : n_finished;
    if (!impl->is_part) watchdog_device_waits("gradient allreduce", sequence, s->waited_sec);
    if (s->waited_sec < timeout_sec) return;
    /* A subset has no common sequence numbers, and a single rank has no watchdog. */
    if (!impl->is_part && impl->comm->size > 1) {
        watchdog_device_expired("gradient allreduce", sequence, s->waited_sec - timeout_sec);
        return;
    }
    log_rank_error("timed out after %g s in \"gradient allreduce\" (the GPU's collective %lld)", timeout_sec,
                   n_finished);
    leave_job(impl);
}

static void watch_sleep(nccl_watch_t *watch)
{
    struct timespec until = thread_time_after(look_sec);
    pthread_cond_timedwait(&watch->wake, &watch->lock, &until);
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
        watch_sleep(watch);
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
