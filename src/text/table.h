/* SPDX-License-Identifier: MIT */
/* Text tables with aligned columns, for terminals, files and logs. Lines are never wider than the terminal:
 * the last text column shrinks, wrapping if it ends the line, otherwise truncated with …. */
#ifndef TEXT_TABLE_H
#define TEXT_TABLE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/mem.h"

enum { TABLE_MAX_COLUMNS = 128 };

typedef struct table_column {
    const char *heading; /* NULL: none */
    bool is_text;        /* left-aligned; numbers are right-aligned */
    const char *unit;    /* after the heading, or below it; NULL: none */
    const char *group;   /* above the headings of this column and the following ones; NULL: none */
    int min_width;       /* for tables printed row by row */
    int max_width;       /* after a longer cell the row continues on a new line; 0: none */
} table_column_t;

/* Set the columns, then either n_rows and cells, or add cells one by one. */
typedef struct table {
    const char *title, *caption; /* for report's renderers; ignored by table_print */
    table_column_t columns[TABLE_MAX_COLUMNS];
    int n_columns;
    int64_t n_rows;
    const char **cells; /* [n_rows, n_columns]; NULL is empty */
    int indent;
    int max_width;    /* of a line; 0: only the terminal limits it */
    bool comment;     /* headings start with #, as in nccl-tests; requires indent >= 2 */
    bool units_below; /* units on a separate line */

    /* Private to table_cell and table_print. */
    arena_t arena;
    int64_t n_cells, n_room;
    err_t status;
    bool has_heading;             /* printed already */
    int width[TABLE_MAX_COLUMNS]; /* of the rows so far */
} table_t;

/* Formats and adds the next cell, row by row. table_print reports errors. */
void table_cell(table_t *table, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Adds a title line above the following rows. Only between rows. */
void table_section(table_t *table, const char *title);

/* Prints the rows and, the first time, the headings. Then discards rows from table_cell, so that a table can
 * be printed while it is measured; columns only get wider. Control characters are replaced by ?. ERR_SYSTEM
 * without memory. */
err_t table_print(table_t *table, FILE *out);
/* The same through log_info, one message per line. Warns if memory runs out. */
void table_log(table_t *table);
/* Frees a table filled by table_cell. */
void table_free(table_t *table);

/* The widest line that `out` and max_width, as in table_t, allow; 0: any. */
int table_line_width(FILE *out, int max_width);
/* Width of text on a screen, in columns. */
int table_text_width(const char *text);
/* Prints text as table_print does. */
void table_put_text(FILE *out, const char *text);
/* Prints words wrapped, and ends the line.
 *
 *   at         column of the cursor
 *   indent     column where further lines start
 *   max_width  as in table_t */
void table_put_wrapped(FILE *out, const char *text, int at, int indent, int max_width);

#endif
