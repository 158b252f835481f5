/* SPDX-License-Identifier: MIT */
/* HTML elements shared by the sections: headings, figures, notes, tables, folded details, labels with units; and the
 * style sheet of the page, with system fonts. Few figures get wide charts: a chart is then drawn twice, and the style
 * sheet shows the one that fits the screen. */
#include "report/html/parts.h"

#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
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

/* Widths of charts if one or two stand side by side; with more, a chart has its usual width. */
static const int wide[] = {0, 900, 480};

/* Columns of a group: 0: as many as there is room for. */
static int n_columns(int n_figures)
{
    return n_figures == 1 ? 1 : n_figures == 2 || n_figures == 4 ? 2 : 0;
}

/* Draws into memory at the usual width, to count the figures. */
static err_t draw_in_memory(html_t *h, html_draw_t draw, const void *context, char **text, size_t *n)
{
    FILE *page = h->out, *memory = open_memstream(text, n);
    if (!memory) RAISE(ERR_SYSTEM, "out of memory for a group of figures");
    h->out = memory;
    h->n_figures = 0;
    err_t err = draw(h, context);
    h->out = page;
    int failed = ferror(memory);
    if (fclose(memory) != 0 || failed) RAISE(ERR_SYSTEM, "out of memory for a group of figures");
    return err;
}

err_t html_figures(html_t *h, html_draw_t draw, const void *context)
{
    char *text = NULL; /* open_memstream allocates it */
    size_t n = 0;
    h->wide = 0;
    err_t err = draw_in_memory(h, draw, context, &text, &n);
    int columns = n_columns(h->n_figures);
    if (err == ERR_OK && h->n_figures > 0) {
        if (columns > 0)
            fprintf(h->out, "<div class=\"figures of%d\">\n", columns);
        else
            fputs("<div class=\"figures\">\n", h->out);
        h->wide = wide[columns];
        if (columns > 0)
            err = draw(h, context);
        else
            fwrite(text, 1, n, h->out);
        h->wide = 0;
        fputs("</div>\n", h->out);
    }
    free(text);
    return err;
}

/* A chart of either width, in an element that the style sheet shows or hides. */
#define DRAW_WIDTHS(h, type, draw, chart)                                                                    \
    do {                                                                                                     \
        type at_width = *(chart);                                                                            \
        if ((h)->wide > 0) fputs("<div class=\"narrow\">", (h)->out);                                        \
        draw((h)->out, &at_width);                                                                           \
        if ((h)->wide == 0) break;                                                                           \
        fputs("</div><div class=\"wide\">", (h)->out);                                                       \
        at_width.width = (h)->wide;                                                                          \
        draw((h)->out, &at_width);                                                                           \
        fputs("</div>\n", (h)->out);                                                                         \
    } while (0)

void html_lines(html_t *h, const chart_lines_t *chart)
{
    DRAW_WIDTHS(h, chart_lines_t, chart_lines_draw, chart);
}

void html_bars(html_t *h, const chart_bars_t *chart)
{
    DRAW_WIDTHS(h, chart_bars_t, chart_bars_draw, chart);
}

void html_stack(html_t *h, const chart_stack_t *chart)
{
    DRAW_WIDTHS(h, chart_stack_t, chart_stack_draw, chart);
}

/* Split: compilers need not accept string literals longer than 4095 bytes. */
const char *const html_css[] = {
    ":root{--text:#1b222b;--paper:#f5f7f9;--quiet:#5b6470;--edge:#d9dee4;--link:#0a66b5}"
    "@media screen and (prefers-color-scheme:dark){:root{--text:#e6eaef;--paper:#0d1218;--quiet:#a3adb9;"
    "--edge:#2f3945;--link:#62b4f7}}"
    "*{box-sizing:border-box}"
    "html{-webkit-text-size-adjust:100%;scroll-behavior:auto}"
    "body{margin:0;background:var(--paper);color:var(--text);font:15px/1.5 system-ui,-apple-system,\"Segoe "
    "UI\","
    "Roboto,\"Noto Sans\",\"Liberation Sans\",sans-serif;overflow-wrap:anywhere}"
    "main,header,nav,footer{max-width:1200px;margin:0 auto;padding:0 16px}"
    "header{padding-top:28px}h1{font-size:1.75rem;line-height:1.2;margin:0 0 4px}"
    "header p{margin:0;color:var(--quiet)}"
    "nav{margin-top:12px;display:flex;flex-wrap:wrap;gap:4px 18px;font-size:.9rem}"
    "a{color:var(--link)}"
    "section{margin:36px 0}h2{font-size:1.2rem;margin:0 0 10px;padding-bottom:6px;border-bottom:1px solid "
    "var(--edge)}"
    "h3{font-size:.95rem;margin:0 0 8px}section>p{margin:0 0 12px;color:var(--quiet);max-width:80ch}"
    ".figures{display:grid;gap:16px;grid-template-columns:repeat(auto-fill,minmax(min(100%,360px),1fr));"
    "align-items:start}"
    ".figures.of1{grid-template-columns:1fr}.wide{display:none}"
    "figure{margin:0;padding:14px;background:var(--ground);border:1px solid "
    "var(--edge);border-radius:8px;min-width:0}"
    "figcaption,.caption{color:var(--quiet);font-size:.8rem;line-height:1.4;margin:8px 0 0}"
    "section>p.caption{margin:10px 0 14px}"
    ".note{border-left:3px solid var(--inconclusive);padding:2px 10px;margin:10px 0}"
    "details{margin-top:8px;font-size:.85rem}summary{cursor:pointer;color:var(--link)}"
    ".figures+.scroll{margin-top:16px}.scroll{overflow-x:auto;max-width:100%}"
    "table{border-collapse:collapse;font-variant-numeric:tabular-nums;font-size:.85rem}"
    "th,td{padding:4px 10px;text-align:right;border-bottom:1px solid var(--edge);vertical-align:top;"
    "overflow-wrap:normal}"
    "th{font-weight:600}thead th{color:var(--quiet);vertical-align:bottom}.t,.facts th,.facts "
    "td{text-align:left}"
    ".scroll .t{max-width:28em;overflow-wrap:break-word}"
    "td:first-child,th:first-child{padding-left:0}"
    ".facts{width:100%;background:none;table-layout:auto}.facts td{overflow-wrap:anywhere}"
    ".facts tbody th{color:var(--quiet);font-weight:400;width:6em}.facts thead td{border:0}"
    ".facts thead th{width:46%}"
    ".kv{display:inline-block;margin-right:14px}.kv i{color:var(--quiet);font-style:normal}"
    ".differs{color:var(--worse);font-weight:600}b.differs{display:block}"
    ".tag{display:inline-block;padding:0 8px;border-radius:10px;border:1px solid var(--k);color:var(--k);"
    "font-size:.8rem;font-weight:600;white-space:nowrap}"
    ".tag.worse,.tag.better{background:var(--k);color:var(--on)}.tag.big{font-size:1.05rem;padding:1px 12px}"
    ".summary{display:flex;flex-wrap:wrap;gap:6px 8px;align-items:center}"
    ".verdicts{width:100%;font-size:.85rem;background:var(--ground)}"
    ".verdicts th,.verdicts td{text-align:left;vertical-align:middle;padding:2px 10px}"
    ".verdicts thead th{vertical-align:bottom}.verdicts tbody th{font-weight:400}"
    ".verdicts :is(td,th):nth-child(3){width:260px;padding:0 10px}.verdicts svg{min-width:200px}"
    ".verdicts td:nth-child(n+4){white-space:nowrap}"
    ".ways{display:flex;justify-content:space-between;font-weight:400}"
    ".said{display:block;color:var(--quiet);font-size:.8rem;line-height:1.3}"
    ".notes{margin:0 0 14px;padding-left:1.2em;color:var(--quiet);font-size:.85rem}"
    "footer{padding-bottom:32px;color:var(--quiet);font-size:.8rem}",
    "@media (min-width:761px){.of1 .wide{display:block}.of1 .narrow{display:none}}"
    "@media (min-width:1000px){.figures.of2{grid-template-columns:1fr 1fr}.of2 .wide{display:block}"
    ".of2 .narrow{display:none}}"
    "@media print{.wide{display:block!important}.narrow{display:none}}"
    "@media (max-width:760px){"
    ".verdicts thead{position:absolute;width:1px;height:1px;overflow:hidden;clip-path:inset(50%)}"
    ".verdicts,.verdicts tbody{display:block}"
    ".verdicts tr{display:flex;flex-wrap:wrap;justify-content:space-between;gap:2px 10px;padding:8px 10px;"
    "border-bottom:1px solid var(--edge)}"
    ".verdicts th,.verdicts td{border:0;padding:0}.verdicts th{flex:1 1 60%}"
    ".verdicts td:nth-child(3){flex:1 0 100%;width:auto;padding:0}.verdicts svg{height:22px}"
    ".facts,.facts tbody,.facts tr,.facts td,.facts th{display:block;width:auto}.facts thead{display:none}"
    ".facts th,.facts td{border:0;padding:0}.facts tr{padding:6px 0;border-bottom:1px solid var(--edge)}"
    ".facts td+td{margin-top:6px}.facts.two td::before{content:\"base: \";color:var(--quiet)}"
    ".facts.two td+td::before{content:\"new: \"}.facts.two .both::before{content:\"\"}}"
    "@media "
    "print{body{background:none;font-size:11px}figure{break-inside:avoid;border-color:#bbb}nav{display:none}"
    "section{margin:18px 0}h2,h3{break-after:avoid}tr{break-inside:avoid}.scroll{overflow:visible}"
    "*{print-color-adjust:exact;-webkit-print-color-adjust:exact}}",
    NULL};
