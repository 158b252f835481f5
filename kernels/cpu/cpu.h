/* SPDX-License-Identifier: MIT */
/* The optimizers, sums, peaks and threads of the cpu backend. */
#ifndef KERNELS_CPU_CPU_H
#define KERNELS_CPU_CPU_H

#include "compute/ops/backend.h"

err_t cpu_optim_sgd(const optim_args_t *args);
err_t cpu_optim_adadelta(const optim_args_t *args);
err_t cpu_optim_adamw(const optim_args_t *args);
err_t cpu_optim_lars(const optim_args_t *args);
err_t cpu_sum_squares(const float *x, int64_t n, double *out);
err_t cpu_accumulate(void *dst, const void *src, int64_t n, dtype_t dtype);
err_t cpu_peak_flops(dtype_t compute, backend_peak_t *out);
err_t cpu_peak_bytes(int64_t n_bytes, backend_peak_t *out);

/* OpenMP's threads: whether they can be started, as its runtime ends the process with code 1 where it cannot start
 * one, and how they wait. */

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
