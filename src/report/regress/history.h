/* SPDX-License-Identifier: MIT */
/* Change points over many recordings of dptrain bench: when each metric became slower or faster, and what
 * differs in the software between the recordings on both sides. A recording is the runs of one file that one
 * machine made: several starts of a suite. The same files give the same result, in whatever order they are
 * added.
 *
 * Recordings are compared within a group: the same hardware, fabric, ranks and threads. A metric is a point
 * of dptrain bench (case, test, key); its value in a recording is the median over the starts of their p50.
 * Starts that met a disturbed machine (verdict `disturbed`, or clock_sec more than COMPARE_CLOCK_SLACK above
 * the metric's usual in the group, compare_usual_clock) are left out where others remain; where none remains
 * the value is kept for showing, of all starts, but finds no change point. Recordings of which a run did not
 * finish are listed, and have no values. */
#ifndef REPORT_REGRESS_HISTORY_H
#define REPORT_REGRESS_HISTORY_H

#include "report/records/render.h"
#include "report/records/report.h"
#include "report/regress/compare.h"
#include "report/stats/change.h"

enum { HISTORY_MIN_VALUES = 2 * STATS_CHANGE_MIN_LENGTH }; /* below it no change point can be found */

typedef struct history_options {
    double min_effect; /* smaller changes of a level are not reported */
    double alpha;      /* rate of false discoveries among the metrics' change points */
    int last;          /* only so many of a group's recordings, the newest; 0: all */
    uint64_t seed;
} history_options_t;

typedef struct history_recording {
    const char *file, *time;  /* time of its first run, UTC as in the record: "2026-11-03T10:12:00Z" */
    const char *git;          /* revision, as "a1b2c3d4e5f6-dirty"; "" where not said */
    report_fields_t software; /* of the run that its file has first */
    int n_starts;             /* runs; in a group's list */
    bool complete;            /* every run finished, and nobody called the file partial */
} history_recording_t;

/* Of one metric in one recording. */
typedef struct history_value {
    int recording; /* index in the group */
    double sec;    /* median of the starts' p50; low, high: least and greatest of them */
    double low, high;
    int n_starts, n_used; /* n_starts - n_used were disturbed and left out */
    bool disturbed;       /* every start was: sec is of all, and is not used for change points */
} history_value_t;

/* A field of the software that is not the revision. */
typedef struct history_difference {
    const char *name, *before, *after; /* "" where not said */
} history_difference_t;

typedef struct history_change {
    int before, after; /* recordings, indices in the group: the last of the old level, the first of the new */
    double ratio;      /* level after / level before: above 1 is slower */
    double p, q;       /* by permutation; Benjamini and Hochberg's, among all metrics of all groups */
    bool same_revision; /* said on both sides, equal and not dirty */
    const history_difference_t *differences;
    int n_differences;
} history_change_t;

typedef struct history_metric history_metric_t;
struct history_metric {
    const char *case_name, *test, *key; /* key: as report_key_text's */
    const char *label;                  /* for people, as metric_t's; no two of a group have the same */
    const history_value_t *values; /* ascending by recording; none of a recording that lacks the metric */
    int n_values, n_disturbed;
    const history_change_t *changes; /* ascending */
    int n_changes;
    const double *levels; /* [n_changes + 1], seconds: median of the undisturbed values from one change to the
                             next; NAN where there is none */
    bool too_short;       /* fewer than HISTORY_MIN_VALUES undisturbed values */
    history_metric_t *next;
};

typedef struct history_group history_group_t;
struct history_group {
    const char *hardware_id, *fabric_id;
    const char *hardware, *fabric; /* in words, with the id: "1a2b: cpu X, cpus 2" */
    const char *name; /* for people: "ranks 2, threads of each 1; hardware 1a2b: cpu X; fabric 3c: hosts 1" */
    double ranks, threads; /* NAN: not said */
    const history_recording_t
        *recordings; /* in the order of time, ties by the file's name; also those not whole */
    int n_recordings, n_complete, n_starts;
    double days;               /* from the first recording to the last; NAN where times are none */
    history_metric_t *metrics; /* in the order of the first recording that has them */
    int n_metrics, n_changed, n_too_short; /* n_changed: metrics with a change */
    int n_values, n_disturbed,
        n_starts_left_out; /* values; of these disturbed; p50s that others made needless */
    history_group_t *next;
};

/* Before history_finish only history_add and history_free may look at it. A zeroed one is empty. */
typedef struct history {
    history_group_t *groups; /* that with the newest recording first */
    int n_groups, n_recordings, n_interrupted;
    const char **notes; /* what was left out and why, for people */
    int n_notes;
    arena_t arena;
    intern_t words;
    struct history_build *build;
} history_t;

/* Takes the recordings of one file, which `report` was read from alone, without samples; it may be freed
 * then. A name that ends in .partial.jsonl is of an interrupted recording. What cannot be used is noted: runs
 * that were added already (the file's copy), runs without head or time, runs of dptrain train (which say no
 * hardware), records of a newer schema. ERR_SYSTEM without memory. */
err_t history_add(history_t *history, const report_t *report);

/* After the last file: order, values, change points. ERR_DATA where there is no value at all. */
err_t history_finish(history_t *history, const history_options_t *options);
void history_free(history_t *history); /* after an error too */

/* Changes of a group to slower whose `after` is among its newest n recordings. */
int history_count_slower(const history_t *history, int n);

err_t history_print(const history_t *history, const history_options_t *options, const render_t *render,
                    FILE *out);
/* One object (docs/records.md). */
err_t history_print_json(const history_t *history, const history_options_t *options, FILE *out);
/* RFC 4180: a row for each value of each metric. */
err_t history_print_csv(const history_t *history, FILE *out);

#endif
