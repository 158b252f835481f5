/* SPDX-License-Identifier: MIT */
/* What the launcher (mpirun, srun) says of this process, before MPI_Init. */
#ifndef BASE_LAUNCH_H
#define BASE_LAUNCH_H

#include <stdbool.h>

/* True under a launcher that starts MPI processes. */
bool launch_present(void);
/* Rank and size in the job; 0 and 1 without a launcher. */
int launch_rank(void);
int launch_size(void);

#endif
