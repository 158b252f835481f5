/* SPDX-License-Identifier: MIT */
/* Threads and signals. Threads that compute never run a signal handler: oneDNN's sgemm keeps a heap address in
 * the stack pointer (oneDNN issue 4845, mended in 3.11.2), so that the kernel would write the handler's frame
 * over the heap. */
#ifndef BASE_THREAD_H
#define BASE_THREAD_H

#include <pthread.h>

/* As pthread_create. The thread blocks all signals but those that a fault raises. */
int thread_start(pthread_t *out, void *(*run)(void *), void *argument);

/* Starts a thread that receives the process's signals, and blocks them in the calling thread and in all that
 * it starts, except SIGPIPE and those that a fault raises. Call at the start of main. Does nothing if the
 * thread cannot be started. */
void thread_receive_signals(void);

#endif
