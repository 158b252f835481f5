/* SPDX-License-Identifier: MIT */
/* `dptrain run`: starts a job by mpirun or srun and supervises it to its end. A process of its own without MPI, on the machine where
 * the job is typed. Not collective. */
#ifndef LAUNCH_LAUNCH_H
#define LAUNCH_LAUNCH_H

#include "text/opt.h"

/* The option tables, for --help; their values are launch_run's. *n: how many groups. */
opt_group_t *launch_options(int *n);

/* How many words at the front are the launcher's own: its options with their values, and names of other launchers. --help is none
 * of them. */
int launch_count_own(int argc, char **argv);

/* Runs a job: the words that follow `dptrain run`, without --help. Prints its own messages.
 *
 *   called_as  what the user typed before them, for messages and commands that continue a job: "scripts/run.sh", "dptrain run"
 *
 * Returns the exit code: the job's (base/err.h), or 128 and the number of the signal that stopped it. */
int launch_run(int argc, char **argv, const char *called_as);

#endif
