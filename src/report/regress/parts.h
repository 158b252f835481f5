/* SPDX-License-Identifier: MIT */
/* What files of this room share: a comparison under way, texts that fit a line. Private to src/report/regress. */
#ifndef REPORT_REGRESS_PARTS_H
#define REPORT_REGRESS_PARTS_H

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

/* Names of the sides in messages: "base" and "new". */
extern const char *const compare_side_names[2];

/* Adds a note to the comparison. */
err_t compare_note(compare_work_t *work, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Fills the summaries of both sides and notes runs left out and differences in software.
 * ERR_DATA: no complete run, or the machines or jobs differ. */
err_t compare_check_sides(compare_work_t *work);

/* Cuts the middle of a text longer than n_columns and puts "…" in its place. */
err_t text_cut(arena_t *arena, const char *text, int n_columns, const char **out);

/* Shortens two texts; skips a long common beginning, up to the word in which they differ. */
err_t text_cut_pair(arena_t *arena, const char *before, const char *after, const char *out[2]);

#endif
