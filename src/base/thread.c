/* SPDX-License-Identifier: MIT */
/* Starts threads with signals blocked, and the one that receives them; clocks of waits. What a thread does and
 * how it ends is left to the callers. */
#include "base/process.h"

#include <signal.h>
#include <unistd.h>

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
