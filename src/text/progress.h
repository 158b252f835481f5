/* SPDX-License-Identifier: MIT */
/* Progress of long work: a line redrawn in place on a terminal, plain lines elsewhere. Rank 0 only; other
 * ranks show nothing. And the options of what a command prints while it works: --progress, --quiet, --verbose. */
#ifndef TEXT_PROGRESS_H
#define TEXT_PROGRESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "text/opt.h"

typedef struct progress_part {
    const char *text;  /* "accuracy 0.9629"; "" or NULL: none */
    const char *brief; /* "acc 0.9629", where room is short; NULL: the same as text */
    int keep;          /* parts with the lowest number are shortened, and then left out, first */
} progress_part_t;

enum { PROGRESS_CELLS = 20, PROGRESS_MIN_CELLS = 5, PROGRESS_MAX_PARTS = 8 };

/* Writes a line of at most `columns` columns: the first part, a bar, the other parts.
 *
 *   n       number of parts, 1 to PROGRESS_MAX_PARTS
 *   share   of the bar that is filled, 0 to 1
 *
 * In a narrow line the bar shrinks to PROGRESS_MIN_CELLS, then words are shortened, then parts are left out.
 * The part to keep longest is cut where even that does not fit. */
void progress_layout(const progress_part_t *parts, int n, double share, int columns, char *out,
                     size_t n_bytes);

typedef enum progress_mode {
    PROGRESS_AUTO, /* a bar if stdout (under mpirun, mpirun's stdout) is a terminal that can redraw a line */
    PROGRESS_BAR,
    PROGRESS_LINES,
    PROGRESS_NONE,
} progress_mode_t;

/* Initially PROGRESS_AUTO, which DPTRAIN_PROGRESS=1 (bar) or 0 (lines) in the environment overrides. */
void progress_set_mode(progress_mode_t mode);

/* Whether the bar is shown; whether callers print lines of progress instead. At most one is true. */
bool progress_active(void);
bool progress_wants_lines(void);

/* Redraws the bar with `done` of `total` filled, at most ten times per second, and always when they are equal.
 * The line fits the terminal's present width. */
void progress_draw_parts(const progress_part_t *parts, int n, int64_t done, int64_t total);

/* The same for "label [####----] text". */
void progress_draw(const char *label, int64_t done, int64_t total, const char *text);

/* Removes the line before other text is printed. */
void progress_clear_line(void);

/* Nothing is silent for long: while nothing is printed or drawn, a thread of rank 0 tells what the process is doing, in the
 * bar every 2 s, or in a line after 5 s, then after twice as long each time, up to a minute.
 *
 *   progress_watch  starts the thread; progress_unwatch ends it. Without it, or before, nothing is told
 *   progress_doing  notes what is being done: "computing step 3". A few stores
 *   progress_lines  the shortest silence before a line, in seconds; a run that prints lines of its own needs fewer
 *   progress_beat   a beat of the thread at a time by clock_sec, for tests */
err_t progress_watch(void);
void progress_unwatch(void);
void progress_doing(const char *what);
void progress_lines(double silent_sec);
void progress_beat(double now_sec);

typedef struct console_options {
    const char *progress;
    bool quiet, verbose;
} console_options_t;

extern const opt_t console_option_table[];
extern const int n_console_options;

/* Applies the options to base/log.h and this file, for the whole process. --quiet implies --progress
 * none, except with bar or lines. */
err_t console_apply(const console_options_t *options);

#endif
