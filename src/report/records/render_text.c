/* SPDX-License-Identifier: MIT */
/* Output formats of tables, facts and notes: aligned text for terminals, and GitHub Markdown. */
#include <string.h>

#include "base/utf8.h"
#include "report/records/render.h"

static void text_line(FILE *out, const char *text)
{
    table_put_text(out, text);
    fputc('\n', out);
}

static void text_facts(FILE *out, const fact_t *fact, int n)
{
    table_t table = {.columns = {{NULL, true}, {NULL, true}}, .n_columns = 2, .n_rows = 1, .indent = 2};
    const char *cells[2];
    for (int i = 0; i < n; i++) {
        int width = table_text_width(fact[i].name);
        if (width > table.columns[0].min_width) table.columns[0].min_width = width;
    }
    table.cells = cells;
    for (int i = 0; i < n; i++) {
        cells[0] = fact[i].name;
        cells[1] = fact[i].text;
        table_print(&table, out);
    }
    fputc('\n', out);
}

static const char *cell_text(const table_t *table, int64_t row, int column)
{
    const char *text = table->cells[row * table->n_columns + column];
    return text ? text : "";
}

static void text_table(FILE *out, const table_t *table)
{
    table_t copy = *table;
    copy.indent = 2;
    table_put_text(out, table->title);
    if (table->caption[0]) fputs(": ", out);
    text_line(out, table->caption);
    if (table->n_columns > 0) table_print(&copy, out);
    fputc('\n', out);
}

const render_t render_text = {text_line, text_facts, text_table, text_line};

/* Escapes text so that it neither ends a cell nor acts as markup or HTML. */
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
        bool at_edge = before == ' ' || text[1] == ' ' || text[1] == '\0'; /* within a word _ is not markup */
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

/* More characters are markup at the start of a line. */
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
            put_escaped(out, cell_text(table, r, c));
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
