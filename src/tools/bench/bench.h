/* SPDX-License-Identifier: MIT */
/* `dptrain bench`: one measuring protocol for all cases. A case (comm, gemm, …) defines one iteration; the
 * protocol warms up, repeats until the median is precise enough, and records every sample.
 *
 * A sample is the mean time of `per_sample` consecutive iterations on the slowest rank. per_sample is 1
 * unless an iteration is too short for the clock. Samples are taken in batches, each after a barrier. A
 * batch disturbed by other load is marked, and repeated within the budget. */
#ifndef TOOLS_BENCH_BENCH_H
#define TOOLS_BENCH_BENCH_H

#include "cluster/session/runtime.h"
#include "cluster/session/yardstick.h"
#include "text/json.h"
#include "text/opt.h"
#include "text/table.h"

typedef struct bench_options {
    const char *out;   /* record file; NULL: runs/bench-DATE.jsonl */
    bool quick;        /* fewer points, less time each */
    double budget_sec; /* per measurement; 0: the default */
    int64_t n_samples; /* per measurement, instead of budget and precision; 0: those decide */
    double precision;  /* target: half of the median's 95 % confidence interval / the median */
    double clock_sec;  /* best known time of the calibration loop on this machine; 0: unknown */
    const char *turns; /* FOLDER:first or FOLDER:second; NULL: no turns */
    runtime_options_t runtime;
} bench_options_t;

/* Other load that a measurement met. */
enum {
    LOAD_STEAL = 1,     /* the hypervisor took over 2 % of CPU time (steal in /proc/stat) */
    LOAD_PREEMPTED = 2, /* this thread waited for a CPU over 5 % of the time (/proc/thread-self/schedstat) */
    LOAD_THROTTLE = 4,  /* a CPU was throttled for heat (thermal_throttle in /sys) */
    LOAD_CLOCK = 8, /* the calibration loop, run before and after the interval, took over 6 % more than its
                           best: a lower clock, or another tenant on the same core */
    LOAD_KINDS = 4,
};

/* State at the start of an interval. Initialise with zeros. */
typedef struct load {
    double start_sec;
    int64_t steal, throttled, waited;
    double best_sec, last_sec; /* of the loop: best so far (may be preset; 0: unknown), and latest */
} load_t;

typedef struct turns turns_t;
typedef struct bench_log bench_log_t;
/* The state of a run, passed to every case. */
typedef struct bench {
    const bench_options_t *options;
    runtime_t runtime;
    comm_t *comm; /* runtime.comm */
    bench_log_t *log;
    load_t load;
    const char *case_name;              /* of the running case */
    turns_t *turns;                     /* NULL: no other job takes turns with this one */
    int n_cpus;                         /* of this host */
    bool cpus_are_shared;               /* more threads than CPUs on this host */
    bool interrupted;                   /* by a signal; the same on all ranks */
    message_t missed;                   /* what cases expect and did not get: ERR_GATE; "": nothing */
    bool failed_check;                  /* a result was wrong: the command ends with ERR_GATE */
    yardstick_t yardstick[DTYPE_COUNT]; /* bench_yardstick's */
    bool has_yardstick[DTYPE_COUNT];
} bench_t;

/* A case: one file and one row in registry.c. Option keys are unique over all cases. They begin with the name
 * of the case, except those of comm, which are nccl-tests' names. */
typedef struct bench_case {
    const char *name, *summary;
    int min_ranks; /* with fewer: ERR_USAGE, or skipped under `all` */
    const opt_t *table;
    int n_options;
    size_t n_options_bytes; /* size of the struct that the table fills in */
    /* Before MPI: rejects conflicting options (ERR_USAGE) and sets derived values. NULL: nothing to check. */
    err_t (*check)(void *options);
    /* Collective. Measures, prints (bench_print, table_log) and records each point. */
    err_t (*run)(bench_t *bench, const void *options);
} bench_case_t;

extern const bench_case_t bench_comm, bench_gemm, bench_conv, bench_mem, bench_io, bench_step;
extern const bench_case_t *const bench_cases[]; /* NULL-terminated */

/* Parts of an iteration that are timed separately, such as a step's forward and backward. */
enum { BENCH_MAX_PARTS = 5 };
typedef struct bench_parts {
    int n;
    const char *const *names;
    /* Seconds that this rank spent in each part since the previous call. */
    void (*take)(void *context, double *sec);
} bench_parts_t;

/* One thing to measure. */
typedef struct bench_work {
    const char *what; /* human-readable: "all_reduce of 8 MiB"; must outlive the measurement */
    void *context;
    err_t (*run)(void *context); /* one iteration; Collective among the participating ranks, or not at all */
    /* For asynchronous work: waits for the device at the end of each sample, within its time. Samples then
     * hold enough iterations to hide the launch and the wait. NULL: run is synchronous. */
    err_t (*finish)(void *context);
    /* Untimed, before every sample, which is then one iteration after a barrier; all ranks must participate.
     * NULL: nothing to prepare. */
    err_t (*prepare)(void *context);
    int n_ranks; /* ranks 0 … n_ranks - 1 participate, the others sleep; 0: all */
    bench_parts_t parts;
    double budget_sec; /* 0: --budget */
} bench_work_t;

enum { BENCH_MIN_SAMPLES = 7, BENCH_MAX_SAMPLES = 2000, BENCH_MAX_WORKS = 32 };

/* Times in seconds per iteration, the same on all ranks. Statistics cover the undisturbed samples, or all if
 * fewer than BENCH_MIN_SAMPLES are undisturbed. */
typedef struct bench_result {
    int64_t n;      /* samples covered */
    double *sec;    /* [n], in the order taken */
    int32_t *batch; /* [n]: batch of each sample */
    int n_batches;
    double *parts[BENCH_MAX_PARTS]; /* [n] each: mean over the participating ranks */
    bench_parts_t parts_of;
    int64_t per_sample;
    int64_t n_disturbed; /* disturbed samples: excluded, unless `disturbed` */
    unsigned loads;      /* LOAD_… seen */
    bool disturbed;      /* the statistics include disturbed samples */
    bool conclusive;     /* the target precision was reached within the budget */
    double min, p50, p95, p99, max, mean;
    double cv;              /* standard deviation / mean */
    double clock_sec;       /* median time of the calibration loop around the covered batches */
    double ci_low, ci_high; /* 95 % confidence interval of the median: stats_median_interval */
    int slowest_rank;       /* most often the slowest */
    double slowest_share;   /* share of samples in which it was */
} bench_result_t;

/* Collective. Measures works[0 … n), alternating after every batch so that all see the same conditions. Ends
 * when every median is precise enough or the budget of all n is spent. After a signal: ERR_GATE, with
 * bench->interrupted set. Free each result, also after an error. */
err_t bench_measure(bench_t *bench, const bench_work_t *works, int n, bench_result_t *results);
void bench_result_free(bench_result_t *result);

/* Collective. Call before allocating n_bytes (may differ between ranks). ERR_USAGE names the host whose
 * memory is too small for its ranks. */
err_t bench_check_memory(bench_t *bench, int64_t n_bytes, const char *what);

/* Collective. Raises the error of an interrupted benchmark on all ranks, and sets bench->interrupted;
 * bench_check_stop does so if a signal has arrived at any. Call it between parts that may take seconds. */
err_t bench_raise_interrupted(bench_t *bench);
err_t bench_check_stop(bench_t *bench);

/* Prints a line on rank 0. */
void bench_print(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* The mark after a figure: "~" inconclusive, "!" disturbed, or "". bench_run prints the legend. */
const char *bench_mark(const bench_result_t *result);
/* If the point is disturbed, a line below its row: the best sample, which says more of the machine than the median then.
 *
 *   parts  of an iteration: the row shows the time of one
 *   rate   at the median, as in the row */
void bench_print_best(const bench_result_t *result, double parts, double rate, const char *unit);

/* Write the "bench" record of a point (docs/records.md): begin, the key, metrics, the derived figures with
 * units in their names, end. begin returns NULL on all ranks but 0. bench_record_end is Collective and adds
 * the times; result is NULL if nothing was timed.
 *
 *     json_t *j = bench_record_begin(bench, "comm", "all_reduce");
 *     if (j) json_int(j, "bytes", n);
 *     bench_record_metrics(bench);
 *     if (j) json_real(j, "busbw_gbs", busbw);
 *     TRY(bench_record_end(bench, &result)); */
json_t *bench_record_begin(bench_t *bench, const char *case_name, const char *test);
void bench_record_metrics(bench_t *bench);
err_t bench_record_end(bench_t *bench, const bench_result_t *result);

/* Collective. Runs cases[0 … n) one after another. groups: all options, for the record. */
typedef struct bench_choice {
    const bench_case_t *which;
    void *options;
} bench_choice_t;
err_t bench_run(const bench_options_t *options, const opt_group_t *groups, int n_groups,
                const bench_choice_t *cases, int n, void (*abort_job)(err_t code));

extern const opt_t bench_option_table[];
extern const int n_bench_options;
/* Call after parsing. ERR_USAGE: options that exclude each other. */
err_t bench_options_check(const bench_options_t *options);
/* Replaces nccl-tests' short options (-b, -e, …) in argv by their long names. */
void bench_comm_long_names(int argc, char **argv);

#endif
