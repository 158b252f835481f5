/* SPDX-License-Identifier: MIT */
/* Whether a run is short of CPU: more ranks or threads than cores, or other processes that take their time.
 * Judged from how long the ranks' main threads were ready to run and had no CPU (base/process.h). */
#ifndef TRAIN_OUTPUT_CPU_USE_H
#define TRAIN_OUTPUT_CPU_USE_H

#include "base/json.h"
#include "base/process.h"
#include "cluster/comm/comm.h"

/* One rank's, of the calling thread. */
typedef struct cpu_watch {
    contention_t contention;
    double since_sec;
    int64_t n_switches;
} cpu_watch_t;

/* Of all ranks. The host is the one with the most threads per CPU. */
typedef struct cpu_use {
    double wait_share;              /* largest share of the time that a rank waited for a CPU */
    double switches_per_sec;        /* involuntary, of all ranks together */
    double load;                    /* highest load average (1 minute) of a host; 0: unknown */
    int n_ranks, n_threads, n_cpus; /* on the host: ranks, their threads, and the CPUs they may use */
} cpu_use_t;

/* Share of the time from which waiting for a CPU counts as a shortage. */
#define CPU_USE_SHORT 0.10
enum { CPU_USE_TEXT_MAX = 200 };

void cpu_watch_open(cpu_watch_t *watch);
void cpu_watch_restart(cpu_watch_t *watch);
void cpu_watch_close(cpu_watch_t *watch);

/* Collective. The time since cpu_watch_open or the last restart.
 *
 *   n_threads  of this rank
 *   n_cpus     that the ranks of this host may use */
err_t cpu_use_gather(comm_t *comm, const cpu_watch_t *watch, int n_threads, int n_cpus, cpu_use_t *out);

bool cpu_use_crowded(const cpu_use_t *use); /* fewer CPUs than threads */
bool cpu_use_short(const cpu_use_t *use);   /* crowded, or waiting for CPUs */

/* "4 threads of 4 ranks share 2 CPUs; ranks waited for a CPU 38 % of the time (1200 involuntary switches/s)",
 * and the advice to take one thread if each rank has several and waits for most of the time. */
void cpu_use_text(const cpu_use_t *use, char out[CPU_USE_TEXT_MAX]);

/* Adds the fields of a record. */
void cpu_use_json(const cpu_use_t *use, json_t *j);

#endif
