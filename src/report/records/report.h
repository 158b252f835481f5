/* SPDX-License-Identifier: MIT */
/* The model that records (docs/records.md) are read into: runs with their points or epochs. Texts belong to
 * the report. Unless samples are kept, memory depends on the number of points only. */
#ifndef REPORT_RECORDS_REPORT_H
#define REPORT_RECORDS_REPORT_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/mem.h"
#include "text/figure.h"

/* A value over the steps of a run, as its loss, reduced for drawing: minimum, median and maximum over at most CURVE_MAX
 * intervals of steps. */
enum { CURVE_MAX = 100 };

typedef struct curve_point {
    double step; /* middle of the interval */
    double low, median, high;
} curve_point_t;

/* A zeroed curve is empty. */
typedef struct curve {
    const curve_point_t *at; /* ascending, in the arena; intervals without a finite loss are omitted */
    int n;
    int64_t n_invalid;           /* losses that are not finite: the run diverged */
    struct curve_losses *losses; /* until curve_finish */
} curve_t;

/* Adds the loss of a step. Where steps repeat after a crash, the later ones replace the earlier. */
err_t curve_add(curve_t *curve, int64_t step, double loss);
/* Divides the steps into intervals of equal length, at least one step each. */
err_t curve_finish(curve_t *curve, arena_t *arena);
/* Frees a curve that was not finished. */
void curve_free(curve_t *curve);

typedef enum field_kind { FIELD_MISSING, FIELD_NUMBER, FIELD_TEXT } field_kind_t;

/* Names and texts are interned: equal texts have equal pointers. */
typedef struct report_field {
    const char *name;
    field_kind_t kind;
    double number;    /* FIELD_NUMBER */
    const char *text; /* FIELD_TEXT; the digits of a number in a key; otherwise NULL */
} report_field_t;

typedef struct report_fields {
    const report_field_t *at;
    int n;
} report_fields_t;

/* NAN: missing. */
typedef struct report_timing {
    const char *unit, *verdict, *disturbances;
    double n, per_sample, n_disturbed, min, p50, p95, p99, max, mean, cv, ci_low, ci_high;
    double slowest_rank, slowest_share;
    double clock_sec;  /* fixed loop of the protocol, timed during the measurement */
    int64_t n_missing; /* samples that are not finite numbers */
} report_timing_t;

/* Samples of a point in the order taken: one array for the total and one of the same length for each timed
 * part ("forward": forward_samples). Parts of another length are left out. In the report's arena. */
typedef struct report_samples {
    const char *part;  /* interned; "": the total */
    const double *sec; /* NAN: null or not finite */
    int64_t n;
} report_samples_t;

typedef struct report_point report_point_t;
struct report_point {
    int64_t line;
    int file; /* index */
    report_fields_t key, metrics;
    const report_timing_t *timing;   /* NULL: not timed */
    const report_samples_t *samples; /* the total first; NULL: none or not kept */
    const int32_t *batch_n;          /* samples in each batch; NULL: not recorded or inconsistent */
    int n_samples, n_batches;
    report_point_t *next; /* in the same group */
};

/* The points of one case and test of a run, in the order of the records. */
typedef struct report_group report_group_t;
struct report_group {
    const char *case_name, *test;
    int64_t n_points;
    report_point_t *first, *last;
    report_group_t *next;
};

enum { STEP_TOTAL, STEP_DATA, STEP_FORWARD, STEP_BACKWARD, STEP_COMM, STEP_OPTIMIZER, STEP_PARTS };
extern const char *const report_step_parts[STEP_PARTS]; /* field names: "step_sec", … */

enum { REPORT_MAX_METRICS = 24, REPORT_MAX_RESUMED = 12 };

/* A metric of a training run, from its `run` record. */
typedef struct report_metric {
    const char *name, *label; /* fields train_NAME and val_NAME; in headings */
    bool is_fraction, higher_is_better;
    bool is_neutral; /* neither higher nor lower is better */
    bool train, val; /* measured in training, in evaluations */
    bool is_detail;  /* not in tables */
} report_metric_t;

/* An epoch, or an evaluation inside one, which has validation alone. */
typedef struct report_epoch report_epoch_t;
struct report_epoch {
    int64_t epoch, line;
    double step, images_per_sec, train_sec, eval_sec;          /* NAN: missing, as below */
    double train[REPORT_MAX_METRICS], val[REPORT_MAX_METRICS]; /* as report_train_t.metrics */
    report_epoch_t *next;
};

typedef struct report_straggler report_straggler_t;

/* A rank that was slow, of its `straggler` record. */
struct report_straggler {
    double rank, n_ranks;     /* n_ranks > 1: all of its host, of which `rank` is the lowest */
    const char *host, *phase; /* interned */
    double sec, usual_sec, first_step, last_step;
    report_straggler_t *next;
};

/* A layer, and a phase's slowest rank, of the `profile` record. */
typedef struct report_layer {
    const char *name, *op, *bound; /* interned */
    double forward_sec, backward_sec, share, share_of_bound;
} report_layer_t;
typedef struct report_slowest {
    const char *phase, *host;
    double rank, sec, usual_sec;
} report_slowest_t;

/* A training run. If it was resumed, most values are those of the last process. */
typedef struct report_train {
    const char *model, *device, *precision, *data;                           /* "": not recorded */
    double ranks, hosts, threads, global_batch, n_steps, n_parameters, seed; /* NAN: not recorded */
    double n_train, n_val, n_corrupt;
    report_fields_t options;
    double images_per_sec,
        median_images_per_sec; /* of the end record; earlier versions had the median alone */
    double peak_memory_bytes, last_step, last_loss;
    int64_t first_step; /* of this process */
    int n_resumed;
    double resumed_at[REPORT_MAX_RESUMED];       /* steps of the last ones, in a ring */
    report_metric_t metrics[REPORT_MAX_METRICS]; /* records of earlier versions: as these had them */
    int n_metrics, main_metric;                  /* main_metric: an index */
    bool metrics_recorded;                       /* by the `run` record */
    report_epoch_t *epochs, *last_epoch;         /* ascending */
    report_epoch_t *between, *last_between;      /* evaluations inside epochs, ascending by step */
    /* Seconds, of the last 65,536 steps, excluding the first 10 of each process: the median step, and its parts,
     * which add up to at most the step (split_shares). */
    double step_sec[STEP_PARTS];
    double mean_step_sec;
    int64_t n_steady;                /* these steps */
    const report_samples_t *samples; /* of these steps, parts named as those of points; NULL: not kept */
    int n_samples;
    struct train_steps *steps;    /* while the run is being read */
    curve_t curve, rates, secs;   /* losses, learning rates, times of steps; empty unless keep_curves */
    const report_layer_t *layers; /* the most expensive first; with the ranks empty without a profile */
    const report_slowest_t *slowest;
    int n_layers, n_slowest;
    const int64_t *confusion; /* [n_confusion, n_confusion] of the last evaluation that has one; NULL: none */
    const char *const *classes; /* [n_classes]; NULL: not recorded */
    int n_confusion, n_classes;
    double confusion_step;
    int64_t n_checkpoints;
    report_straggler_t *stragglers, *last_straggler; /* in the order of the records */
    const char *resumed;                             /* the verdict of the last `resume` record; NULL: none */
    const char *replicas; /* the last `replicas` records in words: "equal, comparisons: 4, …"; NULL: none */
    bool replicas_differ;
    int64_t replicas_step; /* after which they were compared last */
} report_train_t;

typedef struct report_run report_run_t;
struct report_run {
    const char *id, *time; /* interned; "": not recorded */
    int file;              /* of its head, or of its first record if it has none */
    int64_t line;          /* of its head; 0: missing, the run is unknown */
    report_train_t *train; /* NULL: a run of dptrain bench */
    report_fields_t hardware, fabric, software;
    const char *hardware_id, *fabric_id, *software_id;
    const char *end_reason;        /* of its end record; "": none */
    const char *interleaved_with;  /* id of the run it was interleaved with; "": none */
    double seconds, n_points_said; /* of its end record; NAN: none */
    double ranks, threads;         /* of a bench run; NAN: not recorded */
    int64_t n_points;
    report_group_t *groups, *last_group, *now_group;
    int again_file; /* file that holds the run a second time: its points there are left out; -1: none */
    report_run_t *next;
};

/* Faults of one kind in a file. line 0: none. */
typedef struct report_trouble {
    int64_t n, line; /* line of the first */
    char why[192];
} report_trouble_t;

typedef struct report_file {
    const char *name;
    int64_t n_lines, n_records;         /* n_records: accepted */
    report_trouble_t bad, newer, again; /* not records; newer schema; run read before */
    report_run_t *train;                /* training run that the next records belong to */
    bool is_newer;                      /* that run has a newer schema */
} report_file_t;

typedef struct report {
    arena_t arena;
    intern_t words;
    report_run_t *runs, *last, *now;
    struct report_job *jobs, *last_job;          /* job.h */
    struct report_result *results, *last_result; /* results.h */
    report_file_t *files;
    int n_files;
    const char *only_case, *only_test; /* filters, set before reading; NULL: all */
    bool keep_samples, keep_curves;    /* set before reading */
    int64_t n_filtered;                /* points that the filters left out */
} report_t;

/* Adds the records of fd; a zeroed report is empty. Malformed lines are counted. Errors of jsonl_read. */
err_t report_read(report_t *report, int fd, const char *name);
void report_free(report_t *report);

typedef struct check_counts {
    int64_t n_records, n_bad; /* lines that are not empty; those of them that were reported */
} check_counts_t;

/* Checks every line of a file against the tables of records (records/record.h), which report_read does not enforce.
 * Prints "NAME:LINE: fault" for each that fails, and adds to the counts. Errors of jsonl_read. */
err_t report_check_file(int fd, const char *name, FILE *out, check_counts_t *counts);

/* Samples over time, and that of the median step. Without them in an end record, from the steps. */
typedef struct report_rates {
    double mean, median;
} report_rates_t;
report_rates_t report_rates(const report_train_t *train);

/* A metric's value for reading: "98.2 %", "0.1234"; NAN: "-". */
figure_t report_metric_figure(const report_metric_t *metric, double value);

/* The first evaluation with a metric's best value, at the end of an epoch or inside one; NULL: none has a value. */
const report_epoch_t *report_best(const report_train_t *train, int metric);

/* The text that identifies a point within its case and test, as "bytes=8;datatype=float". */
err_t report_key_text(arena_t *arena, const report_point_t *point, const char **out);

/* The first field of that name; NULL: none. */
const report_field_t *fields_find(report_fields_t fields, const char *name);

/* The human-readable value: bytes and times with units, other numbers and texts as recorded, "-" if missing.
 * Points to the field's own text or into *room. */
const char *fields_text(const report_field_t *field, figure_t *room);

/* ---- Dividing a measured time into its parts such that they add up. Medians of the parts do not: those of a step's phases
 * may exceed the step's median ---- */
/* Shares of the parts in the total, over the samples with a total between its quartiles, so that outliers do
 * not count: sum of the part / sum of the total.
 *
 *   total   [n], above 0 and finite
 *   parts   [n_parts] arrays [n]; a value that is not finite counts as 0
 *   shares  [n_parts], output; NAN: the part has no finite value
 *
 * The rest, 1 - the sum of the shares, is the time outside of the parts. ERR_SYSTEM: out of memory. */
err_t split_shares(const double *total, const double *const *parts, int n_parts, int64_t n, double *shares);

#endif
