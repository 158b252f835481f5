/* SPDX-License-Identifier: MIT */
/* The program on simulated hosts (make SMPI=1, scripts/simulate.sh): SimGrid's SMPI runs all ranks in one process,
 * one at a time, each with a copy of the program's variables. Ranks and their watchers have simulated time; other
 * threads, such as those that load data, have real time. */
#ifndef BASE_SIM_H
#define BASE_SIM_H

#include <stdbool.h>
#include <stddef.h>

/* Whether the caller is a simulated rank or its watcher, as callers of all functions below must be. The default
 * build does not contain these functions, and the compiler drops the calls. */
#ifdef DPTRAIN_SMPI
bool sim_is_rank(void);
#else
#define sim_is_rank() false
#endif

/* How often to repeat a measurement, and to warm up before it: n times; once and never where nothing disturbs it. */
static inline int sim_repeats(int n)
{
    return sim_is_rank() ? 1 : n;
}
static inline int sim_warm_ups(int n)
{
    return sim_is_rank() ? 0 : n;
}

/* Rank and size of the job, known before MPI_Init. */
int sim_rank(void);
int sim_size(void);
const char *sim_host_name(void);

/* Simulated seconds since the start of the simulation, and since 1970. */
double sim_sec(void);
double sim_unix_sec(void);
/* Also lets the other ranks run: a rank must not wait for a change in memory without sleeping. */
void sim_sleep(double sec);

/* Ends the simulation with all its ranks. Recorded as the end of the collectives. */
_Noreturn void sim_end(int code);

/* The watcher of this rank: run(NULL), simulated at the same time. False if it cannot be started. */
bool sim_watch(void *(*run)(void *));
/* Waits until it has returned. */
void sim_watch_join(void);
/* Whether the caller is the watcher. */
bool sim_is_watcher(void);

/* Called before the rank's collective of this number: records it if it is rank 0's, and injects the fault that
 * scripts/simulate.sh orders. A hung rank does not return. True: the rank is to be lost, by sim_lose. */
bool sim_collective(const char *what, long long number);
/* Ends this rank and its watcher, as if its process were killed; the job follows a second later, as with mpirun. */
_Noreturn void sim_lose(void);
/* The command line of this rank, with what scripts/simulate.sh adds on it alone. */
void sim_command_line(int *argc, char ***argv);

/* Messages to watchers. sim_send copies the message, which arrives after the network's time; sim_receive waits at
 * most sec for one to this rank's watcher, and returns its size, 0: none arrived. */
void sim_send(int rank, const void *message, size_t n_bytes);
size_t sim_receive(double sec, void *message, size_t max_bytes);

#endif
