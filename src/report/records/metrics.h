/* SPDX-License-Identifier: MIT */
/* What a report's runs measured, as a flat list: one metric for each point of dptrain bench that is the same
 * measurement (case, test and key), and for the step of each kind of training run; in it the starts of the
 * program that measured it, in the order of the files. Only whole runs count: what an interrupted suite left
 * behind is no sample of the suite. */
#ifndef REPORT_RECORDS_METRICS_H
#define REPORT_RECORDS_METRICS_H

#include "report/records/report.h"

/* A run's measurement. A point that is in one run twice counts as it was the last time. */
typedef struct metric_start metric_start_t;
struct metric_start {
    const report_run_t *run;
    const report_point_t *point; /* NULL: of a training run */
    double p50;                  /* seconds, as recorded; above 0 and finite */
    double clock_sec;            /* NAN: not said */
    bool disturbed;              /* by the point's own verdict: the machine was not its alone */
    /* Where the report keeps samples: those of the whole, above 0 and finite (others are left out, of the
     * parts too), then the parts', which may hold anything. NULL: none. */
    const report_samples_t *samples;
    int n_samples;
    const int32_t *batch_n; /* of the samples that are left; NULL: not said */
    int n_batches;
    int64_t n_invalid; /* samples that were left out */
    metric_start_t *next;
};

typedef struct metric metric_t;
struct metric {
    /* Of a training run: "train", its model, and "batch=64;ranks=2;precision=fp32;device=cpu". Interned in
     * the list: metrics_find has those of others. */
    const char *case_name, *test, *key;
    /* For people: case, test, and of the key what tells it from the list's others of its test, as "comm
     * all_reduce bytes 8 MiB". */
    const char *label;
    metric_start_t *starts, *last;
    int n_starts;
    metric_t *next;
};

typedef struct metrics {
    const report_t *report;
    bool with_incomplete;   /* set before: runs that are not whole are listed too, for showing them */
    metric_t *first, *last; /* in the order in which they first occur */
    int n;
    int n_complete; /* runs */
    int n_left_out; /* runs that are not whole; metrics_incomplete says why */
    arena_t arena;
    intern_t words;
} metrics_t;

/* A *out that is zeroed but for its option is filled; metrics_free after an error too. The report is
 * borrowed. What has no time (no p50 and no sample above 0) is not listed. ERR_SYSTEM without memory. */
err_t metrics_list(const report_t *report, metrics_t *out);
void metrics_free(metrics_t *metrics);

/* NULL where there is none. */
const metric_t *metrics_find(const metrics_t *metrics, const char *case_name, const char *test,
                             const char *key);

/* Fills the labels; metrics_list does. */
err_t metrics_label(metrics_t *metrics);

/* Why a run is not whole, as "interrupted", "failed", "cut off", "without its first record"; NULL: it is. */
const char *metrics_incomplete(const report_run_t *run);
/* The run itself or the first behind it that is whole; NULL: none. */
const report_run_t *metrics_next_complete(const report_run_t *run);

#endif
