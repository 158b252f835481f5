/* SPDX-License-Identifier: MIT */
/* Other work on a host: CPUs in use, processes of other jobs, stolen time. Private to src/tools/check. Not
 * collective. */
#ifndef TOOLS_CHECK_LOAD_H
#define TOOLS_CHECK_LOAD_H

#include <sched.h>

#include "base/process.h"
#include "tools/check/check.h"

enum { LOAD_MAX_CULPRITS = 3, LOAD_MAX_LEFTOVERS = 16 };

typedef struct load_process {
    process_t at;      /* as of the snapshot */
    bool of_job, mine; /* a rank of this job; of this user */
    double cpus;       /* CPUs that it used between two snapshots */
} load_process_t;

/* The state of the CPUs and processes at one moment. */
typedef struct load_snapshot {
    double sec;
    int64_t busy, stolen; /* ticks of the CPUs asked for; stolen -1: not reported */
    load_process_t *processes;
    int64_t n;
} load_snapshot_t;

/* Reads a snapshot; load_snapshot_free it.
 *
 *   proc  "/proc", or another folder for tests
 *   cpus  the CPUs that count
 *   pids  [n_pids]: the ranks of this job on this machine */
err_t load_snapshot_read(const char *proc, const cpu_set_t *cpus, const int *pids, int n_pids,
                         load_snapshot_t *out);
/* Reads only busy and stolen. */
void load_cpus_read(const char *proc, const cpu_set_t *cpus, load_snapshot_t *out);
void load_snapshot_free(load_snapshot_t *snapshot);

/* Of one host. */
typedef struct load_facts {
    int n_cpus;     /* that the job's ranks may use */
    double busy;    /* of those, used by other processes while the ranks slept; -1: unknown */
    double average; /* the kernel's 1-minute load average; -1: unknown */
    double stolen;  /* share of the CPU time, while the ranks computed; -1: not reported */
    load_process_t culprits[LOAD_MAX_CULPRITS]; /* the processes that used most of `busy`, in that order */
    int n_culprits;
    load_process_t leftovers[LOAD_MAX_LEFTOVERS]; /* other dptrain processes of this user */
    int n_leftovers;                              /* all of them */
    double oldest_sec;                            /* age of the oldest of them */
} load_facts_t;

/* Sets busy, culprits and leftovers from two snapshots. */
void load_compare(const load_snapshot_t *before, load_snapshot_t *after, const cpu_set_t *cpus,
                  load_facts_t *facts);

/* Adds lines about this host. */
void load_judge(check_t *check, const load_facts_t *facts);
/* Adds the line about this rank.
 *
 *   got   share of a CPU that it got while it computed
 *   fair  its share if nothing else ran */
void load_judge_rank(check_t *check, double got, double fair);

#endif
