/* SPDX-License-Identifier: MIT */
/* Shows the results as a table and as JSON, on rank 0. Private to src/tools/check. */
#ifndef TOOLS_CHECK_SHOW_H
#define TOOLS_CHECK_SHOW_H

#include <stdio.h>

#include "tools/check/lines.h"

/* Equal lines of several hosts or ranks. */
typedef struct check_row {
    const check_line_t *line; /* the first; if measured, the one with the smallest value */
    const check_line_t *last; /* if measured, the one with the greatest value */
} check_row_t;

typedef struct check_rows {
    const check_lines_t *lines;
    check_row_t *row;
    int n;
    int *of_line; /* [lines->n]: row of each line */
    bool *has;    /* [comm->size]: scratch */
} check_rows_t;

/* Merges lines into rows, in the order of their first lines. Free with check_rows_free. */
err_t check_rows_new(const check_t *check, const check_lines_t *lines, check_rows_t *out);
void check_rows_free(check_rows_t *rows);

/* Names the subjects of row i: "all 4 hosts", "node2, node3", "node3 rank 5", "job"; shortened to
 * max_columns: "node2 +6". */
void check_row_where(const check_t *check, const check_rows_t *rows, int i, int max_columns, char *out,
                     size_t n_bytes);

/* Prints the table, then warnings and failures with advice, in 80 columns. */
err_t check_print_table(const check_t *check, const check_rows_t *rows, FILE *out);
err_t check_show_table(const check_t *check, const check_lines_t *lines); /* on stdout */

/* Writes {"hosts", "ranks", "ready", "lines": [{"host", "rank", "check", "name", "status", "found", "value",
 * "advice"}]}. host and rank are null if the line is not about one. ERR_SYSTEM: cannot write the file. */
err_t check_show_json(const check_t *check, const check_lines_t *lines, const char *path);

#endif
