/* SPDX-License-Identifier: MIT */
/* `dptrain bench`: one protocol for everything that is measured. A case (comm, gemm, …) says what one
 * iteration is; the protocol warms up, repeats until the median is known well enough, and keeps every sample;
 * the record keeps what is needed to trust and to compare it.
 *
 * A sample is the mean time of `per_sample` iterations in a row (one, unless an iteration is so short that
 * reading the clock would count), taken by every rank by its own clock; its time is that of the slowest rank.
 * Samples are taken in batches with a barrier before each. A batch during which the machine was not ours
 * alone (tools/bench/foreign_load.h) is marked, and repeated while the budget lasts. */
#ifndef TOOLS_BENCH_BENCH_H
#define TOOLS_BENCH_BENCH_H

#include "base/json.h"
#include "base/opt.h"
#include "base/table.h"
#include "cluster/session/runtime.h"
#include "tools/bench/foreign_load.h"
#include "tools/bench/turns.h"

typedef struct bench_options {
    const char *out;   /* of records; NULL: runs/bench-DATE.jsonl */
    bool quick;        /* less of everything: the whole suite in two minutes */
    double budget_sec; /* of one measurement; 0: the protocol's own */
    double precision;  /* half the width of the median's 95 % confidence interval / the median */
    double clock_sec;  /* best of the fixed loop that is known of this machine; 0: none */
    const char *turns; /* FOLDER:first or FOLDER:second; NULL: no turns */
    runtime_options_t runtime;
} bench_options_t;

typedef struct bench_log bench_log_t;

/* What a case has at hand. */
typedef struct bench {
    const bench_options_t *options;
    runtime_t runtime;
    comm_t *comm; /* runtime.comm */
    bench_log_t *log;
    load_t load;
    const char *case_name; /* that is running */
    turns_t *turns;        /* NULL: this job measures alone */
    int n_cpus;            /* of this host */
    bool cpus_are_shared;  /* it has more threads of ours than CPUs */
    bool interrupted;      /* by a signal; all ranks know */
    bool failed_check;     /* wrong data was found: the command ends with ERR_GATE */
    /* bench_peak's; 0: not measured yet. */
    double peak_flops[DTYPE_COUNT];
} bench_t;

/* A case: one file, one row in registry.c. Option keys are unique over all cases: they begin with the case's
 * name, but for comm's, which are nccl-tests'. */
typedef struct bench_case {
    const char *name, *summary;
    int min_ranks; /* fewer: ERR_USAGE, and under `all` the case is left out */
    const opt_t *table;
    int n_options;
    size_t n_options_bytes; /* of the struct that the table fills in */
    /* Before MPI: conflicts between options. May change them (derived values). ERR_USAGE. NULL: none. */
    err_t (*check)(void *options);
    /* Collective. Prints its table row by row (bench_print) and records each point. */
    err_t (*run)(bench_t *bench, const void *options);
} bench_case_t;

/* Works whose iterations have parts that are timed apart (a step's forward, backward, …). */
enum { BENCH_MAX_PARTS = 5 };
typedef struct bench_parts {
    int n;
    const char *const *names;
    /* This rank's seconds of each part since it was last called. */
    void (*take)(void *context, double *sec);
} bench_parts_t;

/* One thing to be timed. */
typedef struct bench_work {
    const char *what; /* for people: "all_reduce of 8 MiB"; lives as long as the measuring */
    void *context;
    /* One iteration. Calls what is Collective among the ranks that take part, or nothing that is. */
    err_t (*run)(void *context);
    /* For work that `run` only gives to a device: waits for it. Ends a sample, within its time; a sample is
     * then so many iterations that the wait and the first launch do not count. NULL: run has done it. */
    err_t (*finish)(void *context);
    /* Untimed, before every sample, which then is one iteration and follows a barrier of all ranks: all take
     * part. NULL: nothing. */
    err_t (*prepare)(void *context);
    int n_ranks; /* ranks 0 … n_ranks - 1 take part, the others sleep; 0: all */
    bench_parts_t parts;
    double budget_sec; /* 0: --budget */
} bench_work_t;

enum { BENCH_MIN_SAMPLES = 7, BENCH_MAX_SAMPLES = 2000, BENCH_MAX_WORKS = 32 };

/* Seconds an iteration. Statistics are over the undisturbed samples, or over all where these are too few
 * (fewer than BENCH_MIN_SAMPLES). The same on all ranks. */
typedef struct bench_result {
    int64_t n;      /* samples that count */
    double *sec;    /* them, in the order taken; freed by bench_result_free */
    int32_t *batch; /* the batch that each is from */
    int n_batches;
    /* Of each sample an iteration's part, the mean of the ranks that take part. */
    double *parts[BENCH_MAX_PARTS];
    bench_parts_t parts_of;
    int64_t per_sample;
    int64_t n_disturbed; /* samples left out, or, where `disturbed`, all those marked */
    unsigned loads;      /* LOAD_… (tools/bench/foreign_load.h) that were seen */
    bool disturbed;      /* the statistics had to take disturbed samples */
    bool conclusive;     /* the wanted precision was reached within the budget */
    double min, p50, p95, p99, max, mean;
    double cv; /* standard deviation / mean */
    double
        clock_sec; /* of the fixed loop (tools/bench/foreign_load.h) beside the batches that count: their median */
    double ci_low, ci_high; /* 95 % confidence interval of the median: stats_median_interval */
    int slowest_rank;       /* that most often was the slowest, and in which part of the samples */
    double slowest_share;
} bench_result_t;

/* Collective. Measures works[0 … n), in turn: batch after batch of each, so that all meet the same machine.
 * Ends when each is known to the wanted precision or the budget (of n measurements) is used up. After a
 * signal ERR_GATE with bench->interrupted set. The caller frees the results, also after an error. */
err_t bench_measure(bench_t *bench, const bench_work_t *works, int n, bench_result_t *results);
void bench_result_free(bench_result_t *result);

/* Collective. ERR_USAGE, naming the host, where its ranks' n_bytes (each its own) are more than its memory
 * has room for. Call before allocating. */
err_t bench_check_memory(bench_t *bench, int64_t n_bytes, const char *what);

/* A line about a table, on rank 0. Its rows: table_log (base/table.h) as they are measured. */
void bench_print(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* "" or, after a figure: "~" inconclusive, "!" disturbed. bench_run explains them once, below the tables. */
const char *bench_mark(const bench_result_t *result);

/* The "bench" record of a point (docs/records.md), on rank 0; elsewhere NULL, and the other calls do
 * nothing. begin: {…, "case", "test", "key": { — the caller writes what tells this point from others with
 * json_*; metrics: }, "metrics": { — and then figures derived from the result, units in their names; end: the
 * times and samples; result may be NULL where nothing is timed. json_t *j = bench_record_begin(bench, "comm",
 * "all_reduce"); if (j) json_int(j, "bytes", n); bench_record_metrics(bench); if (j) json_real(j,
 * "busbw_gbs", busbw); TRY(bench_record_end(bench, &result)); bench_record_end is Collective: all agree that
 * it is written. */
json_t *bench_record_begin(bench_t *bench, const char *case_name, const char *test);
void bench_record_metrics(bench_t *bench);
err_t bench_record_end(bench_t *bench, const bench_result_t *result);

/* Collective. `dptrain bench`: cases[0 … n) with their options, in turn. groups: all options, for the record.
 */
typedef struct bench_choice {
    const bench_case_t *which;
    void *options;
} bench_choice_t;
err_t bench_run(const bench_options_t *options, const opt_group_t *groups, int n_groups,
                const bench_choice_t *cases, int n, void (*abort_job)(err_t code));

extern const opt_t bench_option_table[];
extern const int n_bench_options;

#endif
