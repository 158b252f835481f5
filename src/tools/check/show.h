/* SPDX-License-Identifier: MIT */
/* What was found, for people and for programs. Private to src/tools/check; on rank 0. */
#ifndef TOOLS_CHECK_SHOW_H
#define TOOLS_CHECK_SHOW_H

#include <stdio.h>

#include "tools/check/lines.h"

/* Lines that say the same of several hosts or ranks. */
typedef struct check_row {
    const check_line_t *line; /* the first of them; of measured ones that with the least value */
    const check_line_t *last; /* of measured ones: that with the greatest value */
} check_row_t;

typedef struct check_rows {
    const check_lines_t *lines;
    check_row_t *row;
    int n;
    int *of_line; /* [lines->n]: which row each line is in */
    bool *has;    /* [comm->size]: scratch */
} check_rows_t;

/* Rows in the order of their first lines. Free with check_rows_free. */
err_t check_rows_new(const check_t *check, const check_lines_t *lines, check_rows_t *out);
void check_rows_free(check_rows_t *rows);

/* Who row i is about: "all 4 hosts", "node2, node3", "node3 rank 5", "job". Where that is longer than
 * max_columns, names are left out and how many they are is said: "node2 +6". */
void check_row_where(const check_t *check, const check_rows_t *rows, int i, int max_columns, char *out,
                     size_t n_bytes);

/* The table, then what failed and what is to be done; lines of 80 columns. */
err_t check_print_table(const check_t *check, const check_rows_t *rows, FILE *out);
err_t check_show_table(const check_t *check, const check_lines_t *lines); /* on stdout */

/* {"hosts", "ranks", "result", "lines": [{"host", "rank", "check", "name", "status", "found", "value",
 * "advice"}]}; host and rank are null where the line is about more than one. ERR_SYSTEM when the file can't
 * be written. */
err_t check_show_json(const check_t *check, const check_lines_t *lines, const char *path);

#endif
