/* SPDX-License-Identifier: MIT */
/* A history under construction; used by history*.c alone. */
#ifndef REPORT_REGRESS_HISTORY_BUILD_H
#define REPORT_REGRESS_HISTORY_BUILD_H

#include "report/regress/history.h"

/* Identity of a metric in all recordings, interned by the history. */
typedef struct history_name {
    const char *case_name, *test, *key, *label;
} history_name_t;

/* One start's measurement. */
typedef struct history_point {
    int name;
    double p50, clock_sec; /* clock_sec NAN: not recorded */
    bool disturbed;
} history_point_t;

/* A recording: the runs of one file on one machine. */
typedef struct history_draft {
    history_recording_t recording;
    const char *hardware_id, *fabric_id;
    const char *hardware, *fabric; /* human-readable */
    double ranks, threads;
    const char **ids; /* [n_starts] run ids */
    history_point_t *points;
    int64_t n_points;
    int file; /* number of the file: names may repeat */
    bool is_copy;
} history_draft_t;

/* Reasons for leaving something out, with counts and the first file by name. */
enum { LEFT_TRAIN, LEFT_HEADLESS, LEFT_TIMELESS, LEFT_NEWER, LEFT_LINES, LEFT_COPY, LEFT_REASONS };
typedef struct history_left {
    int64_t n;
    const char *file;
} history_left_t;

typedef struct history_build {
    history_draft_t *drafts;
    int n_drafts, n_files;
    history_name_t *names;
    int n_names;
    history_left_t left[LEFT_REASONS];
} history_build_t;

/* Whether a draft is of that machine and job. Numbers that are not recorded compare equal. */
bool history_draft_is_of(const history_draft_t *draft, const char *hardware_id, const char *fabric_id,
                         double ranks, double threads);

/* Seconds since 1970 of a record's UTC time; NAN: malformed. */
double history_seconds(const char *time);

void history_count_left_out(history_build_t *build, int reason, int64_t n, const char *file);

/* Finds the change points of all metrics; sets levels and the groups' counts. */
err_t history_find_changes(history_t *history, const history_options_t *options);

#endif
