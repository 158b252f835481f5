/* SPDX-License-Identifier: MIT */
/* Processes of this machine: what /proc shows of them, and whether they reach each other's memory. Not collective. */
#ifndef BASE_PROCESS_H
#define BASE_PROCESS_H

#include <stdbool.h>
#include <stdint.h>

enum { PROCESS_NAME_MAX = 32 };

/* From /proc/PID/stat. */
typedef struct process {
    int pid, parent, cpu; /* cpu: the one it last ran on */
    char state;           /* as in ps: R, S, D, T, Z, … */
    char name[PROCESS_NAME_MAX];
    int64_t ticks;   /* CPU time so far */
    int64_t started; /* ticks after the boot */
} process_t;

/* Parses the text of a stat file; false if it is malformed. */
bool process_parse(const char *text, process_t *out);

/* Reads PROC/PID/stat; false if the process is gone or hidden.
 *
 *   proc  "/proc", or another folder for tests */
bool process_read(const char *proc, long pid, process_t *out);

/* Whether the kernel lets the processes of a job read and write each other's memory (process_vm_readv). */
typedef struct peer_memory {
    bool refused;
    const char *cause, *advice; /* of a refusal: a few words; what to do */
} peer_memory_t;

/* Tried once, by two short-lived calls in a child process; not refused if that cannot be tried. Call it first before
 * MPI_Init, which does not like forks. */
const peer_memory_t *peer_memory(void);

/* A write to a socket whose other end has gone returns EPIPE, as one to a pipe does, but for stdout and stderr: when
 * their reader has gone, SIGPIPE still ends the process. Open MPI writes to ranks of other hosts, one of which may
 * have been killed, and this one is not to be taken for the one that failed. */
void process_survive_lost_peers(void);

#endif
