/* SPDX-License-Identifier: MIT */
/* Starts, wakes and joins the watchdog's thread. What it does is left to watchdog.c. */
#include "cluster/comm/watchdog_thread.h"

#include <errno.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "base/process.h"

err_t watchdog_thread_start(watchdog_thread_t *w, void *(*run)(void *))
{
    w->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (w->wake_fd < 0) RAISE(ERR_SYSTEM, "cannot start the watchdog: eventfd: %s", strerror(errno));
    int status = thread_start(&w->thread, run, NULL);
    if (status == 0) return ERR_OK;
    close(w->wake_fd);
    RAISE(ERR_SYSTEM, "cannot start the watchdog thread: %s", strerror(status));
}

void watchdog_thread_wake(const watchdog_thread_t *w)
{
    eventfd_write(w->wake_fd, 1);
}

void watchdog_thread_awoke(const watchdog_thread_t *w)
{
    eventfd_t count;
    eventfd_read(w->wake_fd, &count);
}

void watchdog_thread_join(watchdog_thread_t *w)
{
    pthread_join(w->thread, NULL);
    close(w->wake_fd);
}

bool watchdog_thread_is_self(const watchdog_thread_t *w)
{
    return pthread_equal(pthread_self(), w->thread) != 0;
}

double watchdog_thread_sec(const watchdog_thread_t *w)
{
    struct timespec cpu = {0};
    clockid_t clock;
    const bool found = pthread_getcpuclockid(w->thread, &clock) == 0;
    if (found) clock_gettime(clock, &cpu);
    return (double)cpu.tv_sec + 1e-9 * (double)cpu.tv_nsec;
}
