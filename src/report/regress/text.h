/* SPDX-License-Identifier: MIT */
/* Shortens texts of records to fit a line. */
#ifndef REPORT_REGRESS_TEXT_H
#define REPORT_REGRESS_TEXT_H

#include "base/mem.h"

/* Cuts the middle of a text longer than n_columns and puts "…" in its place. */
err_t text_cut(arena_t *arena, const char *text, int n_columns, const char **out);

/* Shortens two texts; skips a long common beginning, up to the word in which they differ. */
err_t text_cut_pair(arena_t *arena, const char *before, const char *after, const char *out[2]);

#endif
