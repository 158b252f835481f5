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
/* The host's name, or "localhost". */
void launch_host_name(char *out, size_t n_bytes);

#endif
