/* SPDX-License-Identifier: MIT */
/* Steps of compare_reports; used by compare*.c alone. */
#ifndef REPORT_REGRESS_COMPARE_WORK_H
#define REPORT_REGRESS_COMPARE_WORK_H

#include "report/regress/compare.h"

/* State of a comparison. Index 0 is base, 1 is now. */
typedef struct compare_work {
    comparison_t *out;
    const compare_options_t *options;
    metrics_t sides[2];
    int n_partly_interleaved;   /* metrics with only some starts interleaved */
    int n_empty;                /* measurements without samples */
    const char *clock_hardware; /* id of the hardware that clock_usual is of */
    double clock_usual;
    double *clocks;                 /* scratch for the clock_sec of all starts */
    int n_measured[2], n_slowed[2]; /* per side, over all metrics: starts; slowed or disturbed ones */
} compare_work_t;

/* The starts of a metric. If interleaved, at[0][i] and at[1][i] are partners. */
typedef struct compare_starts {
    const metric_start_t **at[2]; /* [n] */
    int n[2];
    bool interleaved, identical; /* identical: both sides hold the same measurements */
} compare_starts_t;

/* Names of the sides in messages: "base" and "new". */
extern const char *const compare_side_names[2];

/* Adds a note to the comparison. */
err_t compare_note(compare_work_t *work, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* compare_sides.c. Fills the summaries of both sides and notes runs left out and differences in software.
 * ERR_DATA: no complete run, or the machines or jobs differ. */
err_t compare_check_sides(compare_work_t *work);

/* compare_starts.c. Picks the starts of a metric to compare. If the machine was too slow or busy to compare,
 * sets metric->reason and picks all starts. The arrays are in the comparison's arena. */
err_t compare_pick_starts(compare_work_t *work, const metric_t *const metrics[2], compare_metric_t *metric,
                          compare_starts_t *out);
/* Notes starts and samples left out, and metrics with only some starts interleaved. */
err_t compare_note_starts(compare_work_t *work);

/* compare_parts.c. Compares the samples of the starts. part: as in report_samples_t. */
err_t compare_samples(compare_work_t *work, const compare_starts_t *starts, const char *part,
                      stats_difference_t *out);
/* Compares the metric's parts and attributes its change to one. */
err_t compare_parts(compare_work_t *work, const compare_starts_t *starts, compare_metric_t *metric);

#endif
