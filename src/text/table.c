/* SPDX-License-Identifier: MIT */
/* Lays out tables: column widths from the cells, then lines. Formatting numbers is left to text/figure.h;
 * Markdown, CSV and HTML to src/report. */
#include "text/table.h"

#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/utf8.h"

enum { GAP = 2, MIN_SHRUNK = 12 };

/* Marks the second cell of a row whose first cell is a section's title. */
static const char section_mark[] = "";

/* Bytes of the first character. */
static size_t table_character(const char *text, bool *printable)
{
    size_t n = utf8_length(text);
    *printable = n > 0 && !utf8_is_control(text, n);
    return n > 0 ? n : 1;
}

int table_text_width(const char *text)
{
    int width = 0;
    bool printable;
    for (; *text; text += table_character(text, &printable)) width++;
    return width;
}

/* Prints at most n_max characters; returns the rest of the text. */
static const char *table_put(FILE *out, const char *text, int n_max)
{
    for (int i = 0; *text && i < n_max; i++) {
        bool printable;
        size_t n = table_character(text, &printable);
        if (printable)
            fwrite(text, 1, n, out);
        else
            fputc('?', out);
        text += n;
    }
    return text;
}

void table_put_text(FILE *out, const char *text)
{
    table_put(out, text, table_text_width(text));
}

/* A line being printed. */
typedef struct line {
    FILE *out;
    int at; /* columns printed */
} line_t;

static void line_end(line_t *line)
{
    fputc('\n', line->out);
    line->at = 0;
}

/* Prints text at `column`, truncated to n_max characters. */
static void line_put(line_t *line, int column, const char *text, int n_max)
{
    int width = table_text_width(text);
    if (width == 0) return;
    fprintf(line->out, "%*s", column - line->at, "");
    if (width > n_max) {
        table_put(line->out, text, n_max - 1);
        fputs("…", line->out);
        width = n_max;
    } else {
        table_put(line->out, text, width);
    }
    line->at = column + width;
}

/* Wraps words between `column` and `end`; breaks words longer than a line. */
static void line_put_wrapped(line_t *line, int column, int end, const char *text)
{
    bool first = true;
    int whole = table_text_width(text), from = line->at > column ? line->at : column;
    if (from + whole <= end) {
        line_put(line, from, text, whole);
        return;
    }
    while (*text) {
        char word[256];
        size_t n = strcspn(text, " ");
        n = n < sizeof word - 1 ? n : sizeof word - 1;
        memcpy(word, text, n);
        word[n] = '\0';
        int width = table_text_width(word);
        if (!first && line->at + 1 + width > end) {
            line_end(line);
            first = true;
        }
        int start = first ? line->at > column ? line->at : column : line->at + 1;
        const char *rest = word;
        fprintf(line->out, "%*s", start - line->at, "");
        while (start + width > end && end - start > 1) {
            rest = table_put(line->out, rest, end - start);
            width = table_text_width(rest);
            if (width == 0) break;
            line_end(line);
            fprintf(line->out, "%*s", start = column, "");
        }
        table_put(line->out, rest, width);
        line->at = start + width;
        text += n;
        text += strspn(text, " ");
        first = false;
    }
}

int table_line_width(FILE *out, int max_width)
{
    struct winsize size = {0};
    if (!isatty(fileno(out)) || ioctl(fileno(out), TIOCGWINSZ, &size) != 0 || size.ws_col == 0)
        return max_width;
    return max_width && max_width < size.ws_col ? max_width : size.ws_col;
}

void table_put_wrapped(FILE *out, const char *text, int at, int indent, int max_width)
{
    int limit = table_line_width(out, max_width);
    line_t line = {out, at};
    while (*text == ' ') text++;
    if (at < indent) fprintf(out, "%*s", indent - at, "");
    line.at = at < indent ? indent : at;
    line_put_wrapped(&line, indent, limit ? limit : INT32_MAX, text);
    line_end(&line);
}

static const char *table_at(const table_t *table, int64_t row, int column)
{
    const char *text = table->cells[row * table->n_columns + column];
    return text ? text : "";
}

static bool table_is_section(const table_t *table, int64_t row)
{
    return table->n_columns > 1 && table->cells[row * table->n_columns + 1] == section_mark;
}

static bool table_has_unit(const table_column_t *column)
{
    return column->unit && column->unit[0];
}

static void table_heading(const table_t *table, int column, char *out, size_t n_bytes)
{
    const table_column_t *c = &table->columns[column];
    bool unit = table_has_unit(c) && !table->units_below;
    snprintf(out, n_bytes, "%s%s%s", c->heading ? c->heading : "", unit ? " " : "", unit ? c->unit : "");
}

static void table_widen(int *width, int to)
{
    if (to > *width) *width = to;
}

static void table_find_widths(table_t *table, int limit)
{
    char heading[128];
    int total = table->indent, last = table->n_columns - 1; /* that shrinks if lines are too long */
    while (last >= 0 && !table->columns[last].is_text) last--;
    for (int c = 0; c < table->n_columns; c++) {
        const table_column_t *column = &table->columns[c];
        table_heading(table, c, heading, sizeof heading);
        table_widen(&table->width[c], column->min_width);
        table_widen(&table->width[c], table_text_width(heading));
        if (table->units_below && table_has_unit(column))
            table_widen(&table->width[c], table_text_width(column->unit));
        for (int64_t r = 0; r < table->n_rows; r++) {
            if (table_is_section(table, r)) continue;
            int width = table_text_width(table_at(table, r, c));
            if (!column->max_width || width <= column->max_width) table_widen(&table->width[c], width);
        }
        total += table->width[c] + (c > 0 ? GAP : 0);
    }
    /* If the numbers alone are too wide, shrinking the text would not help. */
    if (limit > 0 && last >= 0 && total > limit && table->width[last] - (total - limit) >= MIN_SHRUNK)
        table->width[last] -= total - limit;
}

static void table_put_cell(const table_t *table, line_t *line, const int *start, int column, const char *text)
{
    const table_column_t *c = &table->columns[column];
    int width = table_text_width(text), room = table->width[column];
    int at = start[column] + (c->is_text || width > room ? 0 : room - width);
    if (width == 0) return;
    if (line->at > 0 && line->at >= at) line_end(line); /* after an overlong cell */
    if (!c->is_text)
        line_put(line, at, text, width);
    else if (column == table->n_columns - 1)
        line_put_wrapped(line, at, at + room, text);
    else
        line_put(line, at, text, c->max_width && width > c->max_width ? width : room);
}

static void table_put_headings(const table_t *table, FILE *out, const int *start)
{
    enum { GROUPS, HEADINGS, UNITS, KINDS };
    for (int kind = 0; kind < KINDS; kind++) {
        bool any = false;
        for (int c = 0; c < table->n_columns; c++) {
            const table_column_t *column = &table->columns[c];
            any |= kind == GROUPS     ? column->group != NULL
                   : kind == HEADINGS ? column->heading != NULL
                                      : table->units_below && table_has_unit(column);
        }
        if (!any) continue;
        line_t line = {out, 0};
        if (table->comment) line.at = fprintf(out, "#");
        for (int c = 0; c < table->n_columns; c++) {
            const table_column_t *column = &table->columns[c];
            char text[128] = "";
            if (kind == HEADINGS) table_heading(table, c, text, sizeof text);
            if (kind == UNITS && table_has_unit(column)) snprintf(text, sizeof text, "%s", column->unit);
            if (kind == GROUPS && column->group)
                line_put(&line, start[c], column->group, table_text_width(column->group));
            else
                table_put_cell(table, &line, start, c, text);
        }
        line_end(&line);
    }
}

err_t table_print(table_t *table, FILE *out)
{
    int start[TABLE_MAX_COLUMNS];
    TRY(table->status);
    ASSERT(table->n_columns <= TABLE_MAX_COLUMNS &&
           (table->n_room == 0 || table->n_cells % table->n_columns == 0));
    if (table->n_room > 0) table->n_rows = table->n_cells / table->n_columns;
    table_find_widths(table, table_line_width(out, table->max_width));
    for (int c = 0, at = table->indent; c < table->n_columns; at += table->width[c] + GAP, c++) start[c] = at;
    if (!table->has_heading) table_put_headings(table, out, start);
    table->has_heading = true;
    for (int64_t r = 0; r < table->n_rows && table->n_columns > 0; r++) {
        line_t line = {out, 0};
        if (table_is_section(table, r))
            table_put_text(out, table_at(table, r, 0));
        else
            for (int c = 0; c < table->n_columns; c++)
                table_put_cell(table, &line, start, c, table_at(table, r, c));
        line_end(&line);
    }
    if (table->n_room > 0) table->n_rows = table->n_cells = 0;
    arena_reset(&table->arena);
    return ERR_OK;
}

static err_t table_log_lines(table_t *table)
{
    char *text = NULL;
    size_t n_bytes = 0;
    FILE *memory = open_memstream(&text, &n_bytes);
    if (!memory) RAISE(ERR_SYSTEM, "out of memory for the text of a table");
    int max_width = table->max_width;
    table->max_width = table_line_width(stdout, max_width);
    err_t err = table_print(table, memory);
    table->max_width = max_width;
    fclose(memory);
    for (char *line = text, *end; err == ERR_OK && (end = strchr(line, '\n')); line = end + 1)
        log_info("%.*s", (int)(end - line), line);
    free(text);
    return err;
}

void table_log(table_t *table)
{
    if (table_log_lines(table) != ERR_OK) log_warn("cannot print a table: %s", err_message());
}

static void table_add(table_t *table, const char *text)
{
    if (table->status == ERR_OK && table->n_cells == table->n_room) {
        table->n_room = table->n_room > 0 ? 2 * table->n_room : 256;
        table->status = mem_resize((size_t)table->n_room * sizeof *table->cells, "a table", &table->cells);
    }
    if (table->status == ERR_OK) table->cells[table->n_cells++] = text;
}

void table_cell(table_t *table, const char *format, ...)
{
    const char *text = NULL;
    va_list args;
    va_start(args, format);
    if (table->status == ERR_OK) table->status = arena_vformat(&table->arena, &text, format, args);
    va_end(args);
    table_add(table, text);
}

void table_section(table_t *table, const char *title)
{
    table_cell(table, "%s", title);
    for (int c = 1; c < table->n_columns; c++) table_add(table, section_mark);
}

void table_free(table_t *table)
{
    if (table->n_room > 0) mem_free(&table->cells);
    arena_free(&table->arena);
    table->n_room = table->n_cells = table->n_rows = 0;
}
