/* SPDX-License-Identifier: MIT */
/* Shared libraries that are opened when they are needed, so that the program starts, and at once, on machines
 * without them. */
#ifndef BASE_DL_H
#define BASE_DL_H

#include "base/err.h"

typedef struct dl_function {
    const char *name;
    void *pointer; /* address of the pointer that gets the function */
} dl_function_t;

/* Finds n functions in the first of `names` (ended by NULL) that can be opened; where the process has them
 * already (linked in, or a stand-in for tests), those are taken. ERR_SYSTEM naming library and reason, with
 * `hint`: what to do. The library stays open. */
err_t dl_load(const char *const *names, const dl_function_t *functions, int n, const char *hint);

#endif
