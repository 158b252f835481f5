/* SPDX-License-Identifier: MIT */
/* A signal handler that removes one temporary file and re-raises the signal. It makes only async-signal-safe
 * calls. It runs on the thread that makes the files, which would otherwise begin the next one between the removal and the
 * end of the process; packing multiplies no matrices (base/process.h). */
#include "tools/pack/interrupt.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <unistd.h>

#include "base/fs.h"

static char victim[FS_PATH_MAX];
static atomic_bool armed;
static pthread_t maker;

static void on_signal(int number)
{
    if (!pthread_equal(pthread_self(), maker)) { /* the thread of thread_receive_signals, or MPI's */
        pthread_kill(maker, number);
        return;
    }
    if (atomic_load(&armed)) unlink(victim);
    signal(number, SIG_DFL);
    raise(number); /* takes effect when this handler returns */
}

void interrupt_removes(const char *path)
{
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP};
    static bool caught;
    atomic_store(&armed, false);
    if (!path) return;
    snprintf(victim, sizeof victim, "%s", path);
    atomic_store(&armed, true);
    if (caught) return;
    caught = true;
    maker = pthread_self();
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    sigset_t mine;
    sigemptyset(&mine);
    sigemptyset(&action.sa_mask);
    for (size_t i = 0; i < sizeof signals / sizeof signals[0]; i++) {
        struct sigaction before;
        /* Signals that the launcher or nohup ignores stay ignored. */
        if (sigaction(signals[i], NULL, &before) == 0 && before.sa_handler == SIG_DFL)
            sigaction(signals[i], &action, NULL);
        sigaddset(&mine, signals[i]);
    }
    pthread_sigmask(SIG_UNBLOCK, &mine, NULL);
}
