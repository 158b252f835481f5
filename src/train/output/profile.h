/* SPDX-License-Identifier: MIT */
/* The profile at the end of a run: the phases of a step, the most expensive layers relative to the machine's
 * peak, what keeps the ranks busy, and hints. Times are means over the steady steps and the ranks. */
#ifndef TRAIN_OUTPUT_PROFILE_H
#define TRAIN_OUTPUT_PROFILE_H

#include "base/process.h"
#include "cluster/comm/comm.h"
#include "cluster/session/yardstick.h"
#include "compute/graph/exec.h"
#include "compute/models/rcnn.h"
#include "text/json.h"
#include "train/output/rank_times.h"

/* Whether a run is short of CPU: more ranks or threads than cores, or other processes that take their time. Judged from
 * how long the ranks' main threads were ready to run and had no CPU (base/process.h). One rank's, of the calling
 * thread. */
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

bool cpu_use_short(const cpu_use_t *use); /* crowded, or waiting for CPUs */

/* "4 threads of 4 ranks share 2 CPUs; ranks waited for a CPU 38 % of the time (1200 involuntary switches/s)",
 * and the advice to take one thread if each rank has several and waits for most of the time. */
void cpu_use_text(const cpu_use_t *use, char out[CPU_USE_TEXT_MAX]);

/* Adds the fields of a record. */
void cpu_use_json(const cpu_use_t *use, json_t *j);

/* What a detector's step takes by part on one rank, in seconds. Images are dealt to ranks by an estimate of their
 * cost: where it is wrong, some ranks wait for others, and this tells which part kept those busy. */
typedef struct profile_parts {
    double part[RCNN_PARTS]; /* layers, both passes; of proposals and masks also `host` */
    double host;             /* proposals and targets of boxes, targets of masks */
    double waiting;          /* exposed comm */
    double total;            /* of the step: also data, the optimizer, copies, the sum over images */
} profile_parts_t;

/* Adds the layers' seconds, which are a sum over n_steps steps, to the parts. */
void profile_parts_add(const graph_t *graph, const exec_cost_t *costs, int64_t n_steps,
                       profile_parts_t *parts);

/* Seconds of a step outside of parts and waiting. */
double profile_parts_other(const profile_parts_t *parts);

/* Logs a table with a row per rank; for more than PROFILE_PARTS_ROWS ranks the least, the median and the greatest
 * of each column. */
enum { PROFILE_PARTS_ROWS = 8 };
void profile_parts_print(const profile_parts_t *ranks, int n_ranks);

/* Adds the array "parts" of the profile record, by rank. */
void profile_parts_json(const profile_parts_t *ranks, int n_ranks, json_t *j);

/* Seconds of a step; the rest of total is bookkeeping. comm: allreduce time not overlapped with the backward
 * pass, including the wait for slower ranks; gather: of it, the weight allgather of --shard-optimizer. */
typedef struct profile_split {
    double data, forward, backward, comm, gather, optimizer, total;
} profile_split_t;

/* A layer's forward or backward: a row of the table. All per step. */
typedef struct profile_pass {
    double sec;
    double least_sec; /* by the yardstick, at most sec; the backward passes' sum. 0: nothing bounds it */
    bound_t bound;    /* that of most of least_sec */
} profile_pass_t;
enum { PROFILE_FORWARD, PROFILE_BACKWARD, PROFILE_PASSES };

typedef struct profile_layer {
    const char *name; /* borrowed from the graph */
    op_kind_t kind;
    profile_pass_t pass[PROFILE_PASSES];
    double n_flops;                    /* per step, of both: 2 per multiply-add of the operator's formula */
    exec_pass_t work[OP_PASS_COUNT];   /* per step */
    const op_algorithms_t *algorithms; /* of rank 0, borrowed from the executor; NULL: unknown */
} profile_layer_t;

typedef struct profile {
    int64_t n_steps;
    int n_ranks, n_layers;
    profile_split_t split;
    profile_layer_t *layers; /* the most expensive first */
    bool may_measure;        /* profile_run_t's */
    double sum_sec;          /* part of split.comm that is not waiting for slower ranks, at most */
    cpu_use_t cpu;
    yardstick_t measured;      /* of a rank while all compute */
    yardstick_t yardstick;     /* the same, or more where a layer did more: profile_judge */
    profile_parts_t *ranks;    /* [n_ranks], of detectors; NULL: other models */
    const rank_times_t *times; /* profile_run_t's */
} profile_t;

/* Shares of a step from which a hint is given. */
#define PROFILE_DATA_SHARE   0.10
#define PROFILE_COMM_SHARE   0.20
#define PROFILE_PASSES_SHARE 0.25
#define PROFILE_AWAY_SHARE   0.10 /* time of a pass beyond its bound, which it misses by more than half */
enum { PROFILE_TOP = 5, PROFILE_MAX_HINTS = 5, PROFILE_HINT_MAX = 320 };

/* The measurements of one rank. */
typedef struct profile_run {
    const exec_t *exec;
    const backend_t *backend;
    const profile_split_t *sums;    /* over n_steps > 0 steps */
    int64_t n_steps, n_layer_steps; /* n_layer_steps: of the executor's costs */
    double sum_sec;                 /* an allreduce without waiting, measured at start; 0: unknown */
    const cpu_use_t *cpu;           /* over these steps, of all ranks */
    bool may_measure;               /* algorithms were not measured, but could be */
    /* Of detectors, on the host over n_steps: proposals and targets of boxes, targets of masks. */
    double boxes_sec, masks_sec;
    const rank_times_t *times; /* of rank 0, borrowed; elsewhere without windows */
} profile_run_t;

/* Collective. Averages the measurements of the ranks and measures the yardstick, which takes up to 0.3 s. Call
 * profile_free even after an error. */
err_t profile_gather(comm_t *comm, const profile_run_t *run, profile_t *out);
void profile_free(profile_t *profile);

/* Sorts by descending time; stable. */
void profile_sort(profile_layer_t *layers, int n);

/* Sets least_sec and bound of every layer from the measured yardstick. If a layer did more than that (a higher clock,
 * less other load), the yardstick is raised to it, so that none is above 1. */
void profile_judge(profile_t *profile);

double profile_layer_share(const profile_t *profile, const profile_layer_t *layer); /* of step time */
double profile_layer_flops(const profile_layer_t *layer); /* FLOP/s; 0 without matrix products */
/* least_sec / sec, at most 1; NAN without a bound. Both passes: the sums. */
double profile_pass_of_bound(const profile_pass_t *pass);
profile_pass_t profile_layer_passes(const profile_layer_t *layer);

/* Writes hints, one line each: a bottleneck and what to do about it. The allreduce is named only for the time
 * that it takes itself. Returns their number. */
int profile_hints(const profile_t *profile, char hints[PROFILE_MAX_HINTS][PROFILE_HINT_MAX]);

/* Logs the profile; in five lines unless `whole`. */
void profile_print(const profile_t *profile, bool whole);
/* Adds the fields of the "profile" record. */
void profile_json(const profile_t *profile, json_t *j);

#endif
