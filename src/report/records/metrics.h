/* SPDX-License-Identifier: MIT */
/* The measurements of a report as a flat list of metrics. A metric is a point of dptrain bench, identified by
 * case, test and key, or the step of a kind of training run. It lists its starts, the runs that measured it,
 * in the order of the files. Only complete runs count: those of an interrupted suite may be biased. */
#ifndef REPORT_RECORDS_METRICS_H
#define REPORT_RECORDS_METRICS_H

#include "report/records/report.h"

/* The measurement of one run. Where a run has a point twice, the last counts. */
typedef struct metric_start metric_start_t;
struct metric_start {
    const report_run_t *run;
    const report_point_t *point; /* NULL: a training run */
    double p50;                  /* seconds, above 0 and finite */
    double clock_sec;            /* NAN: not recorded */
    bool disturbed;              /* the point's own verdict */
    /* The total's samples, all above 0 and finite, then those of the parts, which may hold any value. NULL:
     * the report does not keep samples. */
    const report_samples_t *samples;
    int n_samples;
    const int32_t *batch_n; /* of the remaining samples; NULL: not recorded */
    int n_batches;
    int64_t n_invalid; /* samples left out: not above 0 or not finite */
    metric_start_t *next;
};

typedef struct metric metric_t;
struct metric {
    /* For a training run: "train", the model, and "batch=64;ranks=2;precision=fp32;device=cpu". Interned in
     * the list; metrics_find takes any text. */
    const char *case_name, *test, *key;
    /* Human-readable: case, test, and the key fields that distinguish it, as "comm all_reduce bytes 8 MiB".
     */
    const char *label;
    metric_start_t *starts, *last;
    int n_starts;
    metric_t *next;
};

typedef struct metrics {
    const report_t *report;
    bool with_incomplete;   /* option, set before: list incomplete runs as well */
    metric_t *first, *last; /* in order of first occurrence */
    int n;
    int n_complete, n_left_out; /* complete runs; incomplete runs, see metrics_incomplete */
    arena_t arena;
    intern_t words;
} metrics_t;

/* Fills *out, zeroed except for its option. Call metrics_free after an error too. The report is borrowed.
 * Points without p50 or a sample above 0 are not listed. ERR_SYSTEM: out of memory. */
err_t metrics_list(const report_t *report, metrics_t *out);
void metrics_free(metrics_t *metrics);

/* NULL: none. */
const metric_t *metrics_find(const metrics_t *metrics, const char *case_name, const char *test,
                             const char *key);

/* The name that a person reads for a part of a step in the records: "exposed comm" for "allreduce". */
const char *metrics_part_label(const char *part);

/* The reason why a run is incomplete, as "interrupted", "failed", "no end record"; NULL: it is complete. */
const char *metrics_incomplete(const report_run_t *run);
/* The run itself or the first complete one after it; NULL: none. */
const report_run_t *metrics_next_complete(const report_run_t *run);
/* Number of complete runs that both reports hold. */
int metrics_shared_runs(const report_t *a, const report_t *b);

#endif
