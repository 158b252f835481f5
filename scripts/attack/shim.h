/* SPDX-License-Identifier: MIT */
/* Between the two halves of the shim: shim.c decides which call the fault strikes, shim_calls.c replaces the
 * functions. */
#ifndef ATTACK_SHIM_H
#define ATTACK_SHIM_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

typedef enum act {
    ACT_NONE,
    ACT_SIGNAL,
    ACT_EXIT,
    ACT_FAIL,
    ACT_DELAY,
    ACT_BLOCK,
    ACT_FLIP,
    ACT_SHORT,
    ACT_DROP,
    ACT_JUMP,
    ACT_FILL
} act_t;

/* Counts a call, and returns what its replacement has to do. What ends or delays the process happens here.
 *
 *   path     of the file, or NULL
 *   n_bytes  of an allocation or a transfer
 *   caller   of an allocation, or NULL */
act_t shim_strike(const char *call, const char *path, size_t n_bytes, const void *caller);

/* Of the action: seconds, an error number, or a byte. */
double shim_value(void);
bool shim_ready(void);
bool shim_strikes(const char *call); /* this rank, in some call of this function */

/* A step was recorded: DPTRAIN_FAULT_LOG, DPTRAIN_FAULT_PACE. */
void shim_step(void);
void shim_flip(void *data, size_t n_bytes);
const char *shim_path(int fd, char path[PATH_MAX]);

#endif
