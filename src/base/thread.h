/* SPDX-License-Identifier: MIT */
/* Threads that leave signals to the main thread. */
#ifndef BASE_THREAD_H
#define BASE_THREAD_H

#include <pthread.h>

/* As pthread_create. The thread blocks all signals but those that a fault raises. */
int thread_start(pthread_t *out, void *(*run)(void *), void *argument);

#endif
