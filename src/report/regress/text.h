/* SPDX-License-Identifier: MIT */
/* Texts of records, no longer than a line has room for. */
#ifndef REPORT_REGRESS_TEXT_H
#define REPORT_REGRESS_TEXT_H

#include "base/arena.h"

/* At most n_columns of a text; what is cut out of its middle is "…". */
err_t text_cut(arena_t *arena, const char *text, int n_columns, const char **out);

/* Two texts; where they are long, from where they differ on, a word or so before it. */
err_t text_cut_pair(arena_t *arena, const char *before, const char *after, const char *out[2]);

#endif
