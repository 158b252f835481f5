/* SPDX-License-Identifier: MIT */
/* Processes of this machine, as /proc shows them. Not collective. */
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

#endif
