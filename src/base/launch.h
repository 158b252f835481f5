/* SPDX-License-Identifier: MIT */
/* Rank and size according to the launcher (mpirun, srun, torchrun, …), before MPI_Init. */
#ifndef BASE_LAUNCH_H
#define BASE_LAUNCH_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

/* The environment's word. Read it before MPI_Init, which adds variables of its own. */
enum { LAUNCHERS = 8 };
typedef struct launch {
    const char *name;     /* the innermost launcher, such as "mpirun"; NULL: none */
    const char *variable; /* its size is in */
    int by;               /* its number; -1: none */
    int rank, size;       /* its rank and size; 0 and 1 without one */
    int sizes[LAUNCHERS]; /* of all launchers found; 0: not found */
} launch_t;
launch_t launch_read(void);
/* ERR_USAGE if the launcher started more ranks than MPI sees.
 *
 *   library  the MPI library that does not see them, such as "Open MPI v4.1.4" */
err_t launch_check(const launch_t *launch, int n_seen, const char *library);

/* Whether a launcher of MPI processes started this one: only then can MPI see other ranks. */
bool launch_present(void);
/* Rank and size in its job; 0 and 1 without one. */
int launch_rank(void);
int launch_size(void);
/* Whether the process is this rank's alone: its signals, number, CPUs and usage are the rank's. Simulated ranks
 * share one (base/sim.h). */
bool launch_owns_process(void);
/* The host's name, or "localhost". */
void launch_host_name(char *out, size_t n_bytes);

#endif
