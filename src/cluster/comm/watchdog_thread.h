/* SPDX-License-Identifier: MIT */
/* The thread of a rank's watchdog; on simulated hosts, the rank's watcher. Internal to watchdog.c. */
#ifndef CLUSTER_COMM_WATCHDOG_THREAD_H
#define CLUSTER_COMM_WATCHDOG_THREAD_H

#include <pthread.h>
#include <stdbool.h>

#include "base/err.h"

typedef struct watchdog_thread {
    pthread_t thread;
    int wake_fd; /* readable once it has been woken; -1: a watcher, whom a message wakes */
} watchdog_thread_t;

err_t watchdog_thread_start(watchdog_thread_t *w, void *(*run)(void *));
/* From any thread: side_wait returns. */
void watchdog_thread_wake(const watchdog_thread_t *w);
/* By the thread itself, once woken: the next side_wait waits again. */
void watchdog_thread_awoke(const watchdog_thread_t *w);
/* Waits for its end. */
void watchdog_thread_join(watchdog_thread_t *w);

/* Whether the caller is that thread. */
bool watchdog_thread_is_self(const watchdog_thread_t *w);
/* CPU time that it has used. */
double watchdog_thread_sec(const watchdog_thread_t *w);

#endif
