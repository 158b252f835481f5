/* SPDX-License-Identifier: MIT */
/* Starts threads with signals blocked, and the one that receives them. What a thread does and how it ends is
 * left to the callers. */
#include "base/thread.h"

#include <signal.h>
#include <unistd.h>

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
    if (pthread_create(&thread, NULL, receive, NULL) != 0) return;
    pthread_detach(thread);
    sigdelset(&blocked, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &blocked, NULL);
}
