/* SPDX-License-Identifier: MIT */
/* Progress of long work: a line redrawn in place on a terminal, plain lines elsewhere. Rank 0 only; other
 * ranks show nothing. */
#ifndef BASE_PROGRESS_H
#define BASE_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/progress_layout.h"

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

#endif
