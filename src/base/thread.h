/* SPDX-License-Identifier: MIT */
/* Threads and signals. Threads that compute never run a signal handler: oneDNN's sgemm keeps a heap address in
 * the stack pointer (oneDNN issue 4845, mended in 3.11.2), so that the kernel would write the handler's frame
 * over the heap. */
#ifndef BASE_THREAD_H
#define BASE_THREAD_H

#include <pthread.h>
#include <stdbool.h>
#include <time.h>

/* Whether the caller is the process's first thread. */
bool thread_is_main(void);

/* As pthread_cond_init. Waits end by the monotonic clock: a change of the wall clock must not end them. */
int thread_cond_init(pthread_cond_t *out);

/* A time of that clock, for pthread_cond_timedwait. */
struct timespec thread_time_after(double sec);

/* As pthread_create. The thread blocks all signals but those that a fault raises. */
int thread_start(pthread_t *out, void *(*run)(void *), void *argument);

/* Starts a thread that receives the process's signals, and blocks them in the calling thread and in all that
 * it starts, except SIGPIPE and those that a fault raises. Call at the start of main. Does nothing if the
 * thread cannot be started. */
void thread_receive_signals(void);

#endif
