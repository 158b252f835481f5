/* SPDX-License-Identifier: MIT */
/* Limits on threads. OpenMP's runtime ends the process with code 1 where it cannot start one. */
#ifndef KERNELS_CPU_THREADS_H
#define KERNELS_CPU_THREADS_H

#include <stdbool.h>

#include "base/err.h"

/* ERR_SYSTEM unless n threads, including the caller's, can run at the same time. */
err_t threads_check(int n);

/* Whether the limits of memory leave room for the stacks of n threads. */
bool threads_have_room(int n);

#endif
