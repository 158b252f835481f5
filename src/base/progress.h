/* SPDX-License-Identifier: MIT */
/* A progress line, redrawn in place on a terminal. Does nothing if stdout is not a terminal, or on ranks
 * other than 0; callers then print plain lines (progress_active). */
#ifndef BASE_PROGRESS_H
#define BASE_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

/* Whether the line is shown: stdout (under mpirun, mpirun's stdout) is a terminal. DPTRAIN_PROGRESS=1 or 0
 * in the environment overrides this. */
bool progress_active(void);

/* Redraws "label [####----] text", at most ten times per second, and always when done == total. */
void progress_draw(const char *label, int64_t done, int64_t total, const char *text);

/* Removes the line before other text is printed. */
void progress_clear_line(void);

#endif
