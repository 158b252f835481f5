/* SPDX-License-Identifier: MIT */
/* Between the parts of the shim: shim.c decides which call the fault strikes, shim_calls.c replaces the functions,
 * shim_control.c reads faults while the ranks run. */
#ifndef ATTACK_SHIM_H
#define ATTACK_SHIM_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

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

/* A step was recorded: DPTRAIN_FAULT_LOG, and the pace. */
void shim_step(const char *record);
/* Of the bytes at the fault's position [the middle]. */
void shim_flip(void *data, size_t n_bytes);
const char *shim_path(int fd, char path[PATH_MAX]);

/* Replaces the fault. A SPEC without `call` sets only the pace. */
void shim_read_fault(const char *spec);
/* Seconds after the call, of a bit of weights, momentum or states; and what a fault of call=phase waits for. */
double shim_after(void);
const char *shim_wanted_phase(void); /* NULL: none */

/* Starts to follow DPTRAIN_FAULT_FILE. */
void shim_control_begin(void);
bool shim_sleeps(void);  /* ranks of a storm: it follows the file */
bool shim_follows(void); /* it has read the file once */
void shim_nap(void);
/* Before and after a hash: the comparison of replicas hashes the weights with seed 0, and then each buffer of the
 * optimizer and the batch norm statistics with the hash so far as the seed. */
void shim_hash_begins(const void *data, size_t n_bytes, uint64_t seed);
void shim_hash_ends(uint64_t hash);

#endif
