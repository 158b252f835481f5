/* SPDX-License-Identifier: MIT */
/* Gathers the lines of all ranks on rank 0. Private to src/tools/check. */
#ifndef TOOLS_CHECK_LINES_H
#define TOOLS_CHECK_LINES_H

#include "tools/check/check.h"

typedef struct check_line {
    check_scope_t scope;
    int index; /* of the rank or the host; 0 for the job */
    check_status_t status;
    bool measured;
    double value;
    const char *check, *name, *found, *advice; /* advice may be "" */
} check_line_t;

/* The lines of all ranks, in rank order. Their texts point into `text`. */
typedef struct check_lines {
    check_line_t *line;
    int64_t n;
    char *text;
} check_lines_t;

/* Collective. *out is empty on all ranks but 0. Free it with check_lines_free. */
err_t check_lines_gather(check_t *check, check_lines_t *out);
void check_lines_free(check_lines_t *lines);

/* Appends the packed lines of one rank (check_t's text) to `out`. */
err_t check_lines_unpack(const char *text, size_t n_bytes, check_lines_t *out);

#endif
