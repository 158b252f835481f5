/* SPDX-License-Identifier: MIT */
/* RUN np=0
 * The wait policy of OpenMP's threads follows the load: kernels/cpu/cpu.h. */
#include <omp.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "kernels/cpu/cpu.h"
#include "tests/tap.h"

enum { N_THREADS = 2, MAX_SPINNERS = 256 };
static const double deadline_sec = 60;
static atomic_bool stop;

static void *spin(void *unused)
{
    while (!atomic_load(&stop)) {}
    return unused;
}

/* Parallel regions until the threads sleep when they wait, or the deadline. */
static bool sleeps_in_time(void)
{
    const double start = clock_sec();
    while (!idle_sleeps() && clock_sec() - start < deadline_sec) {
#pragma omp parallel num_threads(N_THREADS)
        for (volatile int i = 0; i < 100000; i = i + 1) {}
    }
    return idle_sleeps();
}

int main(void)
{
    pthread_t spinners[MAX_SPINNERS];
    int n = 2 * omp_get_num_procs() < MAX_SPINNERS ? 2 * omp_get_num_procs() : MAX_SPINNERS;
    if (access("/proc/thread-self/schedstat", R_OK) != 0)
        tap_skip_all("the kernel has no /proc/thread-self/schedstat");
    tap_plan(4);
    unsetenv("OMP_WAIT_POLICY"), unsetenv("GOMP_SPINCOUNT");
    omp_set_num_threads(1);
    idle_open();
    OK(!idle_sleeps(), "one thread never waits");
    idle_close();
    omp_set_num_threads(N_THREADS);
    setenv("OMP_WAIT_POLICY", "active", 1);
    idle_open();
    for (int i = 0; i < n; i++)
        if (pthread_create(&spinners[i], NULL, spin, NULL) != 0) abort();
    clock_sleep(0.2);
    OK(!idle_sleeps(), "OMP_WAIT_POLICY is respected");
    idle_close();
    unsetenv("OMP_WAIT_POLICY");
    idle_open();
    OK(sleeps_in_time(), "beside busy threads on every CPU, waiting threads sleep");
    atomic_store(&stop, true);
    for (int i = 0; i < n; i++) pthread_join(spinners[i], NULL);
    idle_close();
    OK(!idle_sleeps(), "… and the policy is restored at the end");
    return tap_done();
}
