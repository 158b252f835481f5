/* SPDX-License-Identifier: MIT */
/* Rank and size according to the launcher (mpirun, srun), before MPI_Init. */
#ifndef BASE_LAUNCH_H
#define BASE_LAUNCH_H

#include <stdbool.h>
#include <stddef.h>

/* Whether a launcher of MPI processes started this one. */
bool launch_present(void);
/* Rank and size in the job; 0 and 1 without a launcher. */
int launch_rank(void);
int launch_size(void);
/* Whether the process is this rank's alone: its signals, number, CPUs and usage are the rank's. Simulated ranks
 * share one (base/sim.h). */
bool launch_owns_process(void);
/* The host's name, or "localhost". */
void launch_host_name(char *out, size_t n_bytes);

#endif
