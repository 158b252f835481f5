/* SPDX-License-Identifier: MIT */
/* OpenMP's threads: whether they can be started, as its runtime ends the process with code 1 where it cannot start
 * one, and how they wait. */
#ifndef KERNELS_CPU_THREADS_H
#define KERNELS_CPU_THREADS_H

#include <stdbool.h>

#include "base/err.h"

/* ERR_SYSTEM unless n threads, including the caller's, can run at the same time. */
err_t threads_check(int n);

/* Whether the limits of memory leave room for the stacks of n threads. */
bool threads_have_room(int n);

/* How the OpenMP threads of the cpu backend wait for each other: they spin while the CPUs are theirs, and sleep
 * while other processes compete for them.
 *
 * A thread that spins starts work in 0.1 us, one that sleeps in 5 to 50 us: small layers are a fifth faster with
 * threads that spin. But a spinning thread spends the CPU time that the scheduler grants it, and is preempted
 * when work arrives. LeNet-5 on two CPUs that are shared with one busy process, relative to one thread: 0.5 with
 * threads that spin, 0.9 with threads that sleep.
 *
 * GNU's OpenMP reads its wait policy once, when it is loaded. But it spins only briefly when it manages more
 * threads than there are CPUs (libgomp manual, GOMP_SPINCOUNT). So a monitor thread checks every 50 ms whether
 * the team competes for its CPUs, and keeps enough parked OpenMP threads while it does. */

/* Starts the monitor of the calling thread's team. Does nothing with one thread, or where OMP_WAIT_POLICY or
 * GOMP_SPINCOUNT is set. Never fails: without a monitor OpenMP's own policy holds. */
void idle_open(void);

void idle_close(void);

/* Whether the threads currently sleep when they wait. */
bool idle_sleeps(void);

#endif
