/* SPDX-License-Identifier: MIT */
/* Steps of compare_reports; used by compare*.c alone. */
#ifndef REPORT_REGRESS_COMPARE_WORK_H
#define REPORT_REGRESS_COMPARE_WORK_H

#include "report/regress/compare.h"

/* A comparison in the making. sides: 0 is base, 1 is now. */
typedef struct compare_work {
    comparison_t *out;
    const compare_options_t *options;
    metrics_t sides[2];
    int n_partly_interleaved;   /* metrics */
    int n_empty;                /* metrics of a start without samples */
    const char *clock_hardware; /* id; whose usual clock_sec the next is */
    double clock_usual;
    double *clocks; /* room for the clock_sec of all starts */
    int n_measured[2],
        n_slowed[2]; /* starts of all metrics of a side; by a slower machine, or not ours alone */
} compare_work_t;

/* The starts of a metric, in an order in which base's i and now's i took turns where all did. */
typedef struct compare_starts {
    const metric_start_t **at[2]; /* [n] */
    int n[2];
    bool interleaved, identical; /* identical: both sides are the same measurements */
} compare_starts_t;

/* "base" and "new", as messages name the sides. */
extern const char *const compare_side_names[2];

/* Adds a line to the notes. */
err_t compare_note(compare_work_t *work, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* compare_sides.c. What the recordings are: fills the comparison's sides. Which runs are left out, and what
 * differs in what they ran on: notes, or ERR_DATA where it differs in what a comparison holds fixed. */
err_t compare_check_sides(compare_work_t *work);

/* compare_starts.c. Picks the starts of a metric that are compared; where it cannot be compared for the
 * machine's sake, metric->reason says so, and all starts are picked. The arrays are in the comparison's
 * arena. */
err_t compare_pick_starts(compare_work_t *work, const metric_t *const metrics[2], compare_metric_t *metric,
                          compare_starts_t *out);
/* Notes on starts and samples that were left out, and on metrics of which only some starts took turns. */
err_t compare_note_starts(compare_work_t *work);

/* compare_parts.c. The difference of the starts' samples; part: report_samples_t's, "": the whole. */
err_t compare_samples(compare_work_t *work, const compare_starts_t *starts, const char *part,
                      stats_difference_t *out);
/* Fills the metric's parts. */
err_t compare_parts(compare_work_t *work, const compare_starts_t *starts, compare_metric_t *metric);

/* What of a time's change there is, seconds. */
double compare_change(const stats_difference_t *difference);

#endif
