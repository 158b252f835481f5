/* SPDX-License-Identifier: MIT */
/* Tables of text for people: columns that line up on a terminal, in a file and in a log. A line is never
 * wider than the terminal it goes to; the last text column gives way, wrapped where it ends the line,
 * otherwise cut with …. */
#ifndef BASE_TABLE_H
#define BASE_TABLE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/arena.h"

enum { TABLE_MAX_COLUMNS = 128 };

typedef struct table_column {
    const char *heading; /* NULL: none */
    bool is_text;        /* left-aligned; numbers are right-aligned */
    const char *unit;    /* after the heading, or below it; NULL: none */
    const char *group;   /* above the headings of this column and of those that follow; NULL: none */
    int min_width;       /* for tables that are printed row by row */
    int max_width;       /* the row goes on in a new line after a longer cell; 0: none */
} table_column_t;

/* Give the columns, then either set n_rows and cells, or add cells one by one. */
typedef struct table {
    const char *title, *caption; /* for report's renderers; table_print leaves them out */
    table_column_t columns[TABLE_MAX_COLUMNS];
    int n_columns;
    int64_t n_rows;
    const char **cells; /* [n_rows, n_columns]; NULL is empty */
    int indent;
    int max_width;    /* of a line; 0: the terminal's alone */
    bool comment;     /* headings start with #, as nccl-tests' do; then indent is 2 at least */
    bool units_below; /* in a line of their own */

    /* table_cell's and table_print's. */
    arena_t arena;
    int64_t n_cells, n_room;
    err_t status;
    bool has_heading;             /* it is printed */
    int width[TABLE_MAX_COLUMNS]; /* of the rows so far */
} table_t;

/* Adds the next cell, row by row, formatted. Errors are kept for table_print. */
void table_cell(table_t *table, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Adds a line with a title above the rows that follow. Only between rows. */
void table_section(table_t *table, const char *title);

/* Prints the rows and, the first time, the headings. Rows from table_cell are then forgotten, so that a table
 * can be printed as it is measured: columns only ever get wider. Text that would move the cursor is replaced
 * by ?. ERR_SYSTEM without memory. */
err_t table_print(table_t *table, FILE *out);
/* The same, a message (log_info) for each line; without memory a warning. */
void table_log(table_t *table);
/* Of a table that table_cell filled. */
void table_free(table_t *table);

/* Columns that text takes on a screen. */
int table_text_width(const char *text);
/* Text as table_print writes it. */
void table_put_text(FILE *out, const char *text);
/* Words of the text from column `at` on; further lines start at `indent`. Ends the line. max_width: as in
 * table_t. */
void table_put_wrapped(FILE *out, const char *text, int at, int indent, int max_width);

#endif
