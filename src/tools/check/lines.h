/* SPDX-License-Identifier: MIT */
/* Lines of all ranks, gathered on rank 0 and shown there as a table or as JSON. Private to src/tools/check. */
#ifndef TOOLS_CHECK_LINES_H
#define TOOLS_CHECK_LINES_H

#include <stdio.h>

#include "base/mem.h"
#include "tools/check/check.h"

typedef struct check_line {
    check_scope_t scope;
    int index;             /* of the rank or the host; 0 for the job */
    check_status_t status; /* of a fact that is not judged yet: `unequal` */
    check_status_t alone;  /* of a fact */
    check_rule_t rule;     /* CHECK_FINDING once it has been judged */
    bool measured, less;
    double value, tolerance;
    const char *check, *name, *item, *found, *advice; /* item and advice may be "" */
} check_line_t;

/* The lines of all ranks, in rank order. Their texts point into `text` and `texts`. */
typedef struct check_lines {
    check_line_t *line;
    int64_t n;
    char *text;
    arena_t texts;
    const char **note; /* [n_notes]: sentences for the end of the table */
    int n_notes;
} check_lines_t;

/* Collective. *out is empty on all ranks but 0. Free it with check_lines_free. */
err_t check_lines_gather(check_t *check, check_lines_t *out);
void check_lines_free(check_lines_t *lines);

/* Not collective. This rank's lines so far; any thread may call it. */
err_t check_lines_copy(const check_t *check, check_lines_t *out);

/* Appends the packed lines of one rank (check_t's text) to `out`. */
err_t check_lines_unpack(const char *text, size_t n_bytes, check_lines_t *out);

/* ---- Judging facts, on rank 0 ---- */
/* What a type of machine is: its facts, as --write-profile wrote them. */
typedef struct check_profile check_profile_t;

/* Reads a profile, before the checks. ERR_USAGE or ERR_DATA names the file and what is wrong. */
err_t check_profile_read(const char *path, check_profile_t **out);
void check_profile_free(check_profile_t **profile);
/* Writes what most hosts have; of speeds, the upper median. */
err_t check_profile_write(const check_t *check, const check_lines_t *facts, const char *path);

/* Turns facts into findings: gives them a status, and says what others have. Of each host, the items of a name that are as they
 * should be become one line. A host that has items of a name, but not one that most such hosts have, gets a line about it.
 *
 *   profile  NULL: none */
err_t check_facts_judge(check_t *check, const check_profile_t *profile, check_lines_t *lines);

/* ---- Showing them, on rank 0 ---- */
/* Equal lines of several hosts or ranks. */
typedef struct check_row {
    const check_line_t *line; /* the first; if measured, the one with the worst value */
    const check_line_t *last; /* if measured, the one with the best value */
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

/* Marks the hosts that are not ready; returns their number.
 *
 *   has  [n_hosts] */
int check_mark_not_ready(const check_t *check, const check_lines_t *lines, bool *has);

/* Writes {"hosts", "ranks", "ready", "lines": [{"host", "rank", "check", "name", "status", "found", "value",
 * "advice"}]}. host and rank are null if the line is not about one. ERR_SYSTEM: cannot write the file. */
err_t check_show_json(const check_t *check, const check_lines_t *lines, const char *path);

/* ---- Around the verdict, on rank 0: --history and --drain-command ---- */
/* ERR_USAGE if the words of --drain-command are not what it takes. Not collective, on any rank. */
err_t check_drain_command(const char *command);

/* Before the checks: opens --history; *history -1: none. ERR_USAGE, ERR_DATA or ERR_SYSTEM for what would fail after them. */
err_t check_after_prepare(const check_t *check, int *history);

/* Adds notes about hosts that failed in the last checks in which they took part. */
err_t check_history_read(const check_t *check, int history, check_lines_t *lines);

/* After the verdict: appends it to --history, and drains hosts. What fails is a warning. */
void check_after(const check_t *check, const check_lines_t *lines, int history);

#endif
