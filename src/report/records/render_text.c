/* SPDX-License-Identifier: MIT */
/* The output forms of tables, facts and notes: aligned text for terminals, and GitHub Markdown. */
#include <string.h>

#include "base/mem.h"
#include "base/utf8.h"
#include "report/records/render.h"

static void put(FILE *out, const char *text)
{
    for (size_t n; *text; text += n) {
        n = utf8_length(text);
        if (n == 0 || utf8_is_control(text, n))
            fputc('?', out);
        else
            fwrite(text, 1, n, out);
        if (n == 0) n = 1;
    }
}

static void heading(FILE *out, const char *text)
{
    put(out, text);
    fputc('\n', out);
}

static void facts(FILE *out, const fact_t *fact, int n)
{
    int width = 0;
    for (int i = 0; i < n; i++)
        if (utf8_count(fact[i].name) > width) width = utf8_count(fact[i].name);
    for (int i = 0; i < n; i++) {
        fputs("  ", out);
        put(out, fact[i].name);
        fprintf(out, "%*s", width - utf8_count(fact[i].name) + 2, "");
        put(out, fact[i].text);
        fputc('\n', out);
    }
    fputc('\n', out);
}

static const char *cell(const table_t *table, int64_t row, int column)
{
    const char *text = table->cells[row * table->n_columns + column];
    return text ? text : "";
}

/* *gap: spaces that are due before the next text, so that no line ends with some. */
static void print_cell(FILE *out, const char *text, int width, bool is_text, int *gap)
{
    int n_pad = width - utf8_count(text);
    if (!is_text) *gap += n_pad;
    if (text[0]) {
        fprintf(out, "%*s", *gap, "");
        put(out, text);
        *gap = 0;
    }
    if (is_text) *gap += n_pad;
}

static void print_row(FILE *out, const table_t *table, int64_t row, const int *width)
{
    int gap = 0;
    for (int c = 0; c < table->n_columns; c++) {
        const table_column_t *column = &table->columns[c];
        gap += 2;
        print_cell(out, row < 0 ? column->heading : cell(table, row, c), width[c], column->is_text, &gap);
    }
    fputc('\n', out);
}

static void print_table(FILE *out, const table_t *table)
{
    int width[TABLE_MAX_COLUMNS];
    for (int c = 0; c < table->n_columns; c++) {
        width[c] = utf8_count(table->columns[c].heading);
        for (int64_t r = 0; r < table->n_rows; r++)
            if (utf8_count(cell(table, r, c)) > width[c]) width[c] = utf8_count(cell(table, r, c));
    }
    put(out, table->title);
    if (table->caption[0]) fputs(": ", out);
    put(out, table->caption);
    fputc('\n', out);
    for (int64_t r = -1; r < table->n_rows && table->n_columns > 0; r++) print_row(out, table, r, width);
    fputc('\n', out);
}

static void note(FILE *out, const char *text)
{
    put(out, text);
    fputc('\n', out);
}

const render_t render_text = {heading, facts, print_table, note};

/* Nothing in a cell may end it, begin markup or be an HTML tag. */
static void put_escaped(FILE *out, const char *text)
{
    char before = ' ';
    for (size_t n; *text; before = *text, text += n) {
        n = utf8_length(text);
        if (n == 0 || utf8_is_control(text, n)) {
            fputc(n == 1 && strchr("\n\r\t", *text) ? ' ' : '?', out);
            if (n == 0) n = 1;
            continue;
        }
        bool at_edge = before == ' ' || text[1] == ' ' || text[1] == '\0'; /* within words _ is a letter */
        if (*text == '<')
            fputs("&lt;", out);
        else if (*text == '&')
            fputs("&amp;", out);
        else if (strchr("\\|`*[]~", *text) || (*text == '_' && at_edge))
            fprintf(out, "\\%c", *text);
        else
            fwrite(text, 1, n, out);
    }
}

/* At the start of a line more means something. */
static void put_line(FILE *out, const char *text)
{
    if (text[0] && strchr("#+->=", text[0])) fputc('\\', out);
    put_escaped(out, text);
}

static void markdown_heading(FILE *out, const char *text)
{
    fputs("## ", out);
    put_escaped(out, text);
    fputs("\n\n", out);
}

static void markdown_facts(FILE *out, const fact_t *fact, int n)
{
    for (int i = 0; i < n; i++) {
        fputs("- ", out);
        put_escaped(out, fact[i].name);
        fputs(": ", out);
        put_escaped(out, fact[i].text);
        fputc('\n', out);
    }
    fputc('\n', out);
}

static void markdown_table(FILE *out, const table_t *table)
{
    fputs("### ", out);
    put_escaped(out, table->title);
    fputs("\n\n", out);
    if (table->caption[0]) {
        put_line(out, table->caption);
        fputs("\n\n", out);
    }
    if (table->n_columns == 0) return;
    for (int c = 0; c < table->n_columns; c++) {
        fputs("| ", out);
        put_escaped(out, table->columns[c].heading);
        fputc(' ', out);
    }
    fputs("|\n", out);
    for (int c = 0; c < table->n_columns; c++) fputs(table->columns[c].is_text ? "|---" : "|---:", out);
    fputs("|\n", out);
    for (int64_t r = 0; r < table->n_rows; r++) {
        for (int c = 0; c < table->n_columns; c++) {
            fputs("| ", out);
            put_escaped(out, cell(table, r, c));
            fputc(' ', out);
        }
        fputs("|\n", out);
    }
    fputc('\n', out);
}

static void markdown_note(FILE *out, const char *text)
{
    put_line(out, text);
    fputs("\n\n", out);
}

const render_t render_markdown = {markdown_heading, markdown_facts, markdown_table, markdown_note};
