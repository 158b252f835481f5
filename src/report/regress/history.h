/* SPDX-License-Identifier: MIT */
/* Change points over many recordings of dptrain bench: when each metric became slower or faster, and how the
 * software differs across the change. Where a trend explains a series better than its changes, it is a drift.
 * A recording is the runs in one file from one machine: several starts of
 * a suite. The same files give the same result, in any order.
 *
 * Recordings are grouped by hardware, fabric, ranks and threads. A metric is a point of dptrain bench (case,
 * test, key). Its value in a recording is the median over the starts of their p50. Starts on a disturbed
 * machine (verdict `disturbed`, or clock_sec more than COMPARE_CLOCK_SLACK above compare_usual_clock of the
 * metric in the group) are left out. If no other start remains, the value uses all starts, is shown, and is
 * not used for change points. Recordings with an incomplete run are listed without values. */
#ifndef REPORT_REGRESS_HISTORY_H
#define REPORT_REGRESS_HISTORY_H

#include "report/records/render.h"
#include "report/records/report.h"
#include "report/regress/compare.h"
#include "report/stats/stats.h"

enum { HISTORY_MIN_VALUES = 2 * STATS_CHANGE_MIN_LENGTH }; /* fewer values cannot show a change point */

#define HISTORY_MIN_EFFECT 0.01
#define HISTORY_ALPHA      0.01

typedef struct history_options {
    double min_effect; /* smaller changes are not reported */
    double alpha;      /* false discovery rate over the change points of all metrics */
    int last;          /* use only the newest recordings of each group; 0: all */
    uint64_t seed;
} history_options_t;

typedef struct history_recording {
    const char *file, *time;  /* time of its first run in UTC, as "2026-11-03T10:12:00Z" */
    const char *git;          /* revision, as "a1b2c3d4e5f6-dirty"; "": not recorded */
    report_fields_t software; /* of the first run in its file */
    int n_starts;             /* runs */
    bool complete;            /* every run finished, and the file is not named .partial.jsonl */
} history_recording_t;

/* The value of a metric in one recording. */
typedef struct history_value {
    int recording; /* index in the group */
    double sec;    /* median of the starts' p50; low, high: their minimum and maximum */
    double low, high;
    double squares;       /* of the starts' logarithms about their mean */
    int n_starts, n_used; /* n_starts - n_used were disturbed and left out */
    bool disturbed;       /* all starts were: sec covers all and is not used for change points */
} history_value_t;

/* A difference in software, apart from the revision. */
typedef struct history_difference {
    const char *name, *before, *after; /* "": not recorded */
} history_difference_t;

typedef struct history_change {
    int before, after;  /* indices in the group: last recording of the old level, first of the new */
    double ratio;       /* level after / level before: above 1 is slower */
    double p, q;        /* by permutation; by Benjamini and Hochberg, over all metrics of all groups */
    bool same_revision; /* recorded on both sides, equal and not dirty */
    const history_difference_t *differences;
    int n_differences;
} history_change_t;

/* A trend that explains the series better than changes do. */
typedef struct history_drift {
    int first, last; /* recordings */
    double from, to; /* seconds, of the trend at these */
    double p;        /* by Mann and Kendall */
} history_drift_t;

typedef struct history_metric history_metric_t;
struct history_metric {
    const char *case_name, *test, *key; /* key: from report_key_text */
    const char *label;                  /* as in metric_t; unique in the group */
    const history_value_t *values; /* ascending by recording; recordings without the metric are skipped */
    int n_values, n_disturbed;
    const history_change_t *changes; /* ascending */
    int n_changes;
    const double *levels;         /* [n_changes + 1] seconds: medians between changes; NAN: none */
    const history_drift_t *drift; /* instead of changes; NULL: none */
    bool too_short;               /* fewer than HISTORY_MIN_VALUES undisturbed values */
    history_metric_t *next;
};

typedef struct history_group history_group_t;
struct history_group {
    const char *hardware_id, *fabric_id;
    const char *hardware, *fabric; /* human-readable, as "1a2b: cpu X, cpus 2" */
    const char *name; /* human-readable, as "ranks 2, threads per rank 1; hardware 1a2b: cpu X; fabric 3c" */
    double ranks, threads;                 /* NAN: not recorded */
    const history_recording_t *recordings; /* including incomplete ones; by time, then by file name */
    int n_recordings, n_complete, n_starts;
    double days;               /* from the first recording to the last; NAN: no times */
    history_metric_t *metrics; /* in order of first occurrence */
    int n_metrics, n_changed, n_drifting, n_too_short; /* metrics with changes, with a drift */
    int n_values, n_disturbed, n_starts_left_out; /* values; disturbed ones; starts left out as disturbed */
    history_group_t *next;
};

/* A zeroed history is empty. Valid after history_finish. */
typedef struct history {
    history_group_t *groups; /* newest recording first */
    int n_groups, n_recordings, n_interrupted;
    const char **notes; /* human-readable: what was left out and why */
    int n_notes;
    arena_t arena;
    intern_t words;
    struct history_build *build;
} history_t;

/* Adds the recordings of one file. `report` holds that file only, without samples, and may be freed
 * afterwards. A file named .partial.jsonl is an interrupted recording. Notes what cannot be used: runs added
 * before (a copy of the file), runs without head or time, runs of dptrain train, which do not record their
 * hardware, and records of a newer schema. ERR_SYSTEM: out of memory. */
err_t history_add(history_t *history, const report_t *report);

/* Sorts, groups and finds change points, after the last file. ERR_DATA if no values were added. */
err_t history_finish(history_t *history, const history_options_t *options);
void history_free(history_t *history); /* also after an error */
/* Part of history_finish: the change points and drifts of all metrics, levels and the groups' counts of them. */
err_t history_find_changes(history_t *history, const history_options_t *options);

/* How the undisturbed values of a metric differ about their levels, and the starts of a recording, in logarithms, on
 * the machine and with the job of `like`. df 0: unknown. Outliers count as two deviations: the newest recordings may
 * be slower, and too few for a change. ERR_SYSTEM: out of memory. */
err_t history_spread(const history_t *history, const report_run_t *like, const char *case_name,
                     const char *test, const char *key, stats_spread_t *starts, stats_spread_t *recordings);

/* Seconds that the metric's level or drift has in a recording. */
double history_level(const history_metric_t *metric, int recording);

/* Number of changes to slower within the newest n recordings of each group, and of drifts to slower. */
int history_count_slower(const history_t *history, int n);

err_t history_print(const history_t *history, const history_options_t *options, const render_t *render,
                    FILE *out);
/* One object (docs/records.md). */
err_t history_print_json(const history_t *history, const history_options_t *options, FILE *out);
/* CSV (RFC 4180), a row per value of each metric. */
err_t history_print_csv(const history_t *history, FILE *out);

#endif
