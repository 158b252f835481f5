/* SPDX-License-Identifier: MIT */
/* Tries whether threads can be started before OpenMP does. */
#include "kernels/cpu/threads.h"

#include <pthread.h>
#include <string.h>

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
