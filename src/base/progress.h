/* SPDX-License-Identifier: MIT */
/* One line that is redrawn in place on a terminal: bar, counts, a caller's text. Does nothing when stdout is
 * not a terminal or on ranks that do not speak; callers print plain lines then (progress_active). */
#ifndef BASE_PROGRESS_H
#define BASE_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

/* True when a bar is shown: stdout, or under mpirun mpirun's own, is a terminal. DPTRAIN_PROGRESS=1 or 0 in
 * the environment decides otherwise. */
bool progress_active(void);

/* Redraws at most ten times a second (always when done == total): "label [####----] text". */
void progress_draw(const char *label, int64_t done, int64_t total, const char *text);

/* Removes the line, so that other text can be printed. Safe at any time. */
void progress_clear_line(void);

#endif
