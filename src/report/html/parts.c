/* SPDX-License-Identifier: MIT */
/* HTML elements shared by the sections: headings, figures, notes, tables, folded details, labels with units.
 */
#include "report/html/parts.h"

#include <math.h>
#include <string.h>

#include "base/figure.h"

enum { MATRIX_MAX_COLUMNS = 64 };

void html_text(html_t *h, const char *text)
{
    chart_escape(h->out, text);
}

static void put_element(html_t *h, const char *tag, const char *text)
{
    fprintf(h->out, "<%s>", tag);
    html_text(h, text);
    fprintf(h->out, "</%s>\n", tag);
}

void html_section(html_t *h, const char *id, const char *heading, const char *lead)
{
    fprintf(h->out, "<section id=\"%s\">\n", id);
    put_element(h, "h2", heading);
    if (lead) put_element(h, "p", lead);
}

void html_section_end(html_t *h)
{
    fputs("</section>\n", h->out);
}

void html_figure(html_t *h, const char *title)
{
    h->n_figures++;
    fputs("<figure>\n", h->out);
    put_element(h, "h3", title);
}

void html_figure_end(html_t *h, const char *caption, const table_t *table)
{
    put_element(h, "figcaption", caption);
    if (table) html_folded(h, "Data", table);
    fputs("</figure>\n", h->out);
}

void html_note(html_t *h, const char *text)
{
    fputs("<p class=\"note\">", h->out);
    html_text(h, text);
    fputs("</p>\n", h->out);
}

void html_folded(html_t *h, const char *summary, const table_t *table)
{
    fputs("<details>", h->out);
    put_element(h, "summary", summary);
    html_table(h, table);
    fputs("</details>\n", h->out);
}

/* Cells are right-aligned by default, for numbers; class t is for text. */
void html_table(html_t *h, const table_t *table)
{
    fputs("<div class=\"scroll\" tabindex=\"0\"><table><thead><tr>", h->out);
    for (int c = 0; c < table->n_columns; c++) {
        fputs(table->columns[c].is_text ? "<th scope=\"col\" class=\"t\">" : "<th scope=\"col\">", h->out);
        html_text(h, table->columns[c].heading);
        fputs("</th>", h->out);
    }
    fputs("</tr></thead>\n<tbody>\n", h->out);
    for (int64_t r = 0; r < table->n_rows; r++) {
        fputs("<tr>", h->out);
        for (int c = 0; c < table->n_columns; c++) {
            const char *text = table->cells[r * table->n_columns + c];
            fputs(table->columns[c].is_text ? "<td class=\"t\">" : "<td>", h->out);
            if (text) html_text(h, text);
            fputs("</td>", h->out);
        }
        fputs("</tr>\n", h->out);
    }
    fputs("</tbody></table></div>\n", h->out);
}

err_t html_matrix_table(html_t *h, const html_matrix_t *matrix, const char *row_heading,
                        chart_text_t (*figure)(double), table_t *out)
{
    int n_sides = matrix->at[HTML_BASE] ? 2 : 1;
    int n_series = matrix->n_series;
    if (n_series > (MATRIX_MAX_COLUMNS - 1) / n_sides) n_series = (MATRIX_MAX_COLUMNS - 1) / n_sides;
    *out = (table_t){.n_columns = 1 + n_series * n_sides, .n_rows = matrix->n_rows};
    out->columns[0] = (table_column_t){.heading = row_heading, .is_text = true};
    for (int c = 0; c < n_series * n_sides; c++) {
        const char *name = matrix->series[c / n_sides];
        out->columns[1 + c].heading = name[0] ? name : "value";
        if (c % n_sides == HTML_BASE)
            TRY(arena_format(&h->arena, &out->columns[1 + c].heading, "%s%sbase", name, name[0] ? ", " : ""));
    }
    TRY(arena_new(&h->arena, sizeof *out->cells * (size_t)out->n_rows * (size_t)out->n_columns, &out->cells));
    const char **cell = out->cells;
    for (int row = 0; row < matrix->n_rows; row++) {
        *cell++ = matrix->rows[row];
        for (int c = 0; c < n_series * n_sides; c++, cell++) {
            html_value_t value = matrix->at[c % n_sides][row * matrix->n_series + c / n_sides];
            *cell = NULL;
            if (isfinite(value.middle))
                TRY(arena_format(&h->arena, cell, "%s%s", figure(value.middle).text,
                                 value.disturbed ? " !" : ""));
        }
    }
    return ERR_OK;
}

static chart_text_t with_unit(double value, const char *unit)
{
    chart_text_t out;
    if (isfinite(value))
        snprintf(out.text, sizeof out.text, "%.4g%s", value, unit);
    else
        snprintf(out.text, sizeof out.text, "-");
    return out;
}

chart_text_t html_label_size(double n_bytes)
{
    chart_text_t out;
    snprintf(out.text, sizeof out.text, "%.31s", figure_size(n_bytes).text);
    return out;
}

chart_text_t html_label_percent(double fraction)
{
    return with_unit(100 * fraction, " %");
}

chart_text_t html_label_figure(double value)
{
    double size = fabs(value);
    chart_text_t out;
    if (!isfinite(value) || size < 1e-3 || size >= 1e7) return with_unit(value, "");
    snprintf(out.text, sizeof out.text, "%.*f",
             size >= 99.95    ? 0
             : size >= 9.995  ? 1
             : size >= 0.9995 ? 2
                              : 3,
             value);
    return out;
}
