/* SPDX-License-Identifier: MIT */
/* OpenMP's threads: tries whether they can be started before OpenMP does; then a monitor watches whether they compete
 * for CPUs (base/process.h), and sets OpenMP's spin limit, which follows from it. */
#include "kernels/cpu/cpu.h"

#include <omp.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/mem.h"
#include "base/process.h"

static pthread_mutex_t held = PTHREAD_MUTEX_INITIALIZER;

static void *wait_for_others(void *unused)
{
    pthread_mutex_lock(&held);
    pthread_mutex_unlock(&held);
    return unused;
}

bool threads_have_room(int n)
{
    pthread_attr_t attr;
    size_t n_stack = 0;
    pthread_attr_init(&attr);
    pthread_attr_getstacksize(&attr, &n_stack);
    pthread_attr_destroy(&attr);
    return n < 1 || mem_has_room((size_t)n * n_stack);
}

err_t threads_check(int n)
{
    pthread_t *threads;
    int n_started = 0, reason = 0;
    if (n < 2) return ERR_OK;
    TRY(mem_new_array(n - 1, sizeof *threads, "a list of threads", &threads));
    pthread_mutex_lock(&held);
    while (n_started < n - 1 && reason == 0) {
        reason = thread_start(&threads[n_started], wait_for_others, NULL);
        n_started += reason == 0;
    }
    pthread_mutex_unlock(&held);
    for (int i = 0; i < n_started; i++) pthread_join(threads[i], NULL);
    mem_free(&threads);
    if (reason == 0) return ERR_OK;
    RAISE(ERR_SYSTEM,
          "cannot start %d threads: %s; use fewer (--threads), or raise the limits of processes and memory "
          "(ulimit -u, -v)",
          n, strerror(reason));
}

/* SPARE_STACKS: room for the arena of a new thread, and what the main thread allocates at the same time. */
enum { MAX_WATCHED = 64, SPARE_STACKS = 32 };
static const double interval_sec = 0.05;

static struct {
    pthread_t monitor, parked;
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    bool running, stop, sleeps; /* stop and sleeps: guarded by the mutex */
    int n_parked, n_watched;
    contention_t watched[MAX_WATCHED];
} self = {.mutex = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

/* Owns OpenMP threads that only count. */
static void *idle_park(void *unused)
{
#pragma omp parallel num_threads(self.n_parked)
    {
        __asm__ __volatile__(""); /* GCC removes empty regions */
    }
    pthread_mutex_lock(&self.mutex);
    while (self.sleeps) pthread_cond_wait(&self.changed, &self.mutex);
    pthread_mutex_unlock(&self.mutex);
    return unused;
}

/* Called with the mutex locked. */
static void idle_set_sleeps(bool sleeps)
{
    if (sleeps == self.sleeps) return;
    self.sleeps = sleeps && threads_have_room(self.n_parked + SPARE_STACKS);
    if (sleeps) {
        self.sleeps = self.sleeps && pthread_create(&self.parked, NULL, idle_park, NULL) == 0;
        return;
    }
    pthread_cond_broadcast(&self.changed);
    pthread_mutex_unlock(&self.mutex);
    pthread_join(self.parked, NULL);
    pthread_mutex_lock(&self.mutex);
}

/* Called with the mutex locked. False once idle_close has asked the monitor to end. */
static bool idle_wait(void)
{
    struct timespec until = thread_time_after(interval_sec);
    int status = 0;
    while (!self.stop && status == 0)
        status = pthread_cond_clockwait(&self.changed, &self.mutex, CLOCK_MONOTONIC, &until);
    return !self.stop;
}

static void *idle_monitor(void *unused)
{
    pthread_mutex_lock(&self.mutex);
    while (idle_wait()) {
        bool competes = false;
        for (int i = 0; i < self.n_watched; i++) competes |= contention_update(&self.watched[i]);
        idle_set_sleeps(competes);
    }
    idle_set_sleeps(false);
    pthread_mutex_unlock(&self.mutex);
    return unused;
}

void idle_open(void)
{
    const int n_threads = omp_get_max_threads(), n_procs = omp_get_num_procs();
    if (self.running || n_threads < 2 || getenv("OMP_WAIT_POLICY") || getenv("GOMP_SPINCOUNT")) return;
    self.n_parked = n_procs > n_threads ? n_procs - n_threads + 2 : 2;
#pragma omp parallel num_threads(n_threads)
#pragma omp critical(idle_watch)
    if (self.n_watched < MAX_WATCHED) contention_open(&self.watched[self.n_watched++]);
    self.stop = false;
    self.running = thread_start(&self.monitor, idle_monitor, NULL) == 0;
}

void idle_close(void)
{
    if (self.running) {
        pthread_mutex_lock(&self.mutex);
        self.stop = true;
        pthread_cond_broadcast(&self.changed);
        pthread_mutex_unlock(&self.mutex);
        pthread_join(self.monitor, NULL);
    }
    self.running = false;
    while (self.n_watched > 0) contention_close(&self.watched[--self.n_watched]);
}

bool idle_sleeps(void)
{
    pthread_mutex_lock(&self.mutex);
    bool sleeps = self.sleeps;
    pthread_mutex_unlock(&self.mutex);
    return sleeps;
}
