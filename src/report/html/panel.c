/* SPDX-License-Identifier: MIT */
/* The panels of the page and its tables, and the style sheet, with system fonts. Few panels get wide charts: a
 * chart is then drawn twice, and the style sheet shows the one that fits the screen. */
#include "report/html/panel.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { MAX_COLUMNS = 64 };

const char *html_format(html_t *h, const char *format, ...)
{
    const char *text = "";
    va_list args;
    va_start(args, format);
    err_t err = arena_vformat(&h->arena, &text, format, args);
    va_end(args);
    if (err != ERR_OK) h->status = err;
    return err == ERR_OK ? text : "";
}

const char *html_join(html_t *h, const char *a, const char *b)
{
    return a[0] && b[0] ? html_format(h, "%s, %s", a, b) : a[0] ? a : b;
}

/* Cells are right-aligned by default, for numbers; class t is for text. */
void html_row(html_t *h, const table_column_t *columns, int n, const char *const *cells)
{
    html_put(h, "<tr>");
    for (int c = 0; c < n; c++)
        html_put(h, columns[c].is_text ? "<td class=\"t\">%s</td>" : "<td>%s</td>", cells[c] ? cells[c] : "");
    html_put(h, "</tr>\n");
}

void html_table_begin(html_t *h, const table_column_t *columns, int n)
{
    html_put(h, "<div class=\"scroll\" tabindex=\"0\"><table><thead><tr>");
    for (int c = 0; c < n; c++)
        html_put(h,
                 columns[c].is_text ? "<th scope=\"col\" class=\"t\">%s</th>" : "<th scope=\"col\">%s</th>",
                 columns[c].heading);
    html_put(h, "</tr></thead>\n<tbody>\n");
}

void html_table_end(html_t *h)
{
    html_put(h, "</tbody></table></div>\n");
}

void html_table(html_t *h, const table_t *table)
{
    html_table_begin(h, table->columns, table->n_columns);
    for (int64_t r = 0; r < table->n_rows; r++)
        html_row(h, table->columns, table->n_columns, table->cells + r * table->n_columns);
    html_table_end(h);
}

/* Rows × series, including base. */
static void put_data(html_t *h, const html_panel_t *panel)
{
    const chart_table_t *t = &panel->table;
    int n_sides = t->base ? HTML_SIDES : 1, n_columns = t->n_series * n_sides, n = 0;
    const char *cells[MAX_COLUMNS + 1];
    table_column_t columns[MAX_COLUMNS + 1] = {{.heading = panel->row_heading, .is_text = true}};
    if (n_columns > (MAX_COLUMNS - 1) / n_sides * n_sides) n_columns = (MAX_COLUMNS - 1) / n_sides * n_sides;
    if (t->notes) columns[++n].heading = "time";
    for (int c = 0; c < n_columns; c++) {
        const char *name = t->series[c / n_sides];
        columns[++n].heading = c % n_sides == HTML_BASE ? html_join(h, name, "base")
                               : name[0]                ? name
                                                        : "value";
    }
    html_put(h, "<details><summary>Data</summary>\n");
    html_table_begin(h, columns, n + 1);
    for (int row = 0; row < t->n_rows; row++) {
        cells[n = 0] = t->rows[row];
        if (t->notes) cells[++n] = t->notes[row];
        for (int c = 0; c < n_columns; c++) {
            const chart_value_t *values = c % n_sides == HTML_BASE ? t->base : t->values;
            const chart_value_t *value = &values[c / n_sides * t->n_rows + row];
            cells[++n] = NULL;
            if (isfinite(value->y))
                cells[n] = html_format(h, "%s%s", t->figure(value->y).text, value->disturbed ? " !" : "");
        }
        html_row(h, columns, n + 1, cells);
    }
    html_table_end(h);
    html_put(h, "</details>\n");
}

err_t html_panel_add(html_t *h, const html_panel_t *panel)
{
    html_panel_t *copy;
    TRY(arena_new(&h->arena, sizeof *copy, &copy));
    *copy = *panel;
    *(h->n_panels++ ? &h->last->next : &h->panels) = copy;
    h->last = copy;
    return ERR_OK;
}

static void draw_chart(html_t *h, const html_panel_t *panel, int width)
{
    if (panel->lines.series)
        chart_lines_draw(h->out, &panel->lines, width);
    else
        chart_table_draw(h->out, &panel->table, width);
}

void html_panels_print(html_t *h)
{
    /* Widths of charts if one or two stand side by side; with more, there are as many as have room. */
    static const int widths[] = {0, 900, 480};
    const int n = h->n_panels, columns = n == 1 ? 1 : n == 2 || n == 4 ? 2 : 0;
    if (n == 0) return;
    html_put(h, columns ? "<div class=\"figures of%d\">\n" : "<div class=\"figures\">\n", columns);
    const html_panel_t *panel = h->panels;
    for (int i = 0; i < n; i++, panel = panel->next) {
        html_put(h, "<figure>\n<h3>%s</h3>\n", panel->title);
        if (columns) {
            html_panel_t still = *panel; /* a narrow screen has no mouse */
            still.lines.values = false;
            html_put(h, "<div class=\"narrow\">");
            draw_chart(h, &still, CHART_WIDTH);
            html_put(h, "</div><div class=\"wide\">");
            draw_chart(h, panel, widths[columns]);
            html_put(h, "</div>\n");
        } else {
            draw_chart(h, panel, CHART_WIDTH);
        }
        if (panel->caption) html_put(h, "<figcaption>%s</figcaption>\n", panel->caption);
        if (panel->table.rows) put_data(h, panel);
        html_put(h, "</figure>\n");
    }
    html_put(h, "</div>\n");
    h->n_panels = 0;
}

figure_t html_label_percent(double fraction)
{
    figure_t out = {"-"};
    if (isfinite(fraction)) snprintf(out.text, sizeof out.text, "%.4g %%", 100 * fraction);
    return out;
}

figure_t html_label_figure(double value)
{
    double size = fabs(value);
    int n_decimals = size >= 99.95 ? 0 : size >= 9.995 ? 1 : size >= 0.9995 ? 2 : 3;
    figure_t out = {"-"};
    if (isfinite(value) && (size < 1e-3 || size >= 1e7))
        snprintf(out.text, sizeof out.text, "%.4g", value);
    else if (isfinite(value))
        snprintf(out.text, sizeof out.text, "%.*f", n_decimals, value);
    return out;
}

/* Split: compilers need not accept string literals longer than 4095 bytes. */
const char *const html_css[] = {
    ":root{--text:#1b222b;--paper:#f5f7f9;--quiet:#5b6470;--edge:#d9dee4;--link:#0a66b5}"
    "@media screen and (prefers-color-scheme:dark){:root{--text:#e6eaef;--paper:#0d1218;--quiet:#a3adb9;"
    "--edge:#2f3945;--link:#62b4f7}}"
    "*{box-sizing:border-box}"
    "html{-webkit-text-size-adjust:100%;scroll-behavior:auto}"
    "body{margin:0;background:var(--paper);color:var(--text);font:15px/1.5 system-ui,-apple-system,"
    "\"Segoe UI\",Roboto,\"Noto Sans\",\"Liberation Sans\",sans-serif;overflow-wrap:anywhere}"
    "main,header,nav,footer{max-width:1200px;margin:0 auto;padding:0 16px}"
    "header{padding-top:28px}h1{font-size:1.75rem;line-height:1.2;margin:0 0 4px}"
    "header p{margin:0;color:var(--quiet)}"
    "nav{margin-top:12px;display:flex;flex-wrap:wrap;gap:4px 18px;font-size:.9rem}"
    "a{color:var(--link)}"
    "section{margin:36px 0}h2{font-size:1.2rem;margin:0 0 10px;padding-bottom:6px;border-bottom:1px solid var(--edge)}"
    "h3{font-size:.95rem;margin:0 0 8px}section>p{margin:0 0 12px;color:var(--quiet);max-width:80ch}"
    ".figures{display:grid;gap:16px;grid-template-columns:repeat(auto-fill,minmax(min(100%,360px),1fr));"
    "align-items:start}"
    ".figures.of1{grid-template-columns:1fr}.wide{display:none}"
    "figure{margin:0;padding:14px;background:var(--ground);border:1px solid var(--edge);"
    "border-radius:8px;min-width:0}"
    "figcaption,.caption{color:var(--quiet);font-size:.8rem;line-height:1.4;margin:8px 0 0}"
    "section>p.caption{margin:10px 0 14px}"
    ".note{border-left:3px solid var(--inconclusive);padding:2px 10px;margin:10px 0}"
    "details{margin-top:8px;font-size:.85rem}summary{cursor:pointer;color:var(--link)}"
    ".figures+.scroll{margin-top:16px}.scroll{overflow-x:auto;max-width:100%}"
    "table{border-collapse:collapse;font-variant-numeric:tabular-nums;font-size:.85rem}"
    "th,td{padding:4px 10px;text-align:right;border-bottom:1px solid var(--edge);vertical-align:top;"
    "overflow-wrap:normal}"
    "th{font-weight:600}thead th{color:var(--quiet);vertical-align:bottom}"
    ".t,.facts th,.facts td{text-align:left}"
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
    ".summary{display:flex;flex-wrap:wrap;gap:6px 8px;align-items:center}",
    ".verdicts{width:100%;font-size:.85rem;background:var(--ground)}"
    ".verdicts th,.verdicts td{text-align:left;vertical-align:middle;padding:2px 10px}"
    ".verdicts thead th{vertical-align:bottom}.verdicts tbody th{font-weight:400}"
    ".verdicts :is(td,th):nth-child(3){width:260px;padding:0 10px}.verdicts svg{min-width:200px}"
    ".verdicts td:nth-child(n+4){white-space:nowrap}"
    ".runs{width:100%;font-size:.9rem;margin-bottom:16px}.runs td{vertical-align:top}.runs tbody th{text-align:left}"
    ".big{font-size:1.35rem;line-height:1.2}.key{display:inline-block;width:12px;height:12px;border-radius:3px;"
    "margin-right:6px;background:var(--k)}.warns{display:block;color:var(--worse);font-weight:600;font-size:.85rem}"
    ".confusion{margin-top:16px;width:fit-content;max-width:100%}.confusion td{text-align:center;min-width:3.2em}.confusion tbody th{text-align:left}"
    ".h1{--p:8%}.h2{--p:16%}.h3{--p:24%}.h4{--p:32%}.h5{--p:40%}.h6{--p:48%}.h7{--p:56%}.h8{--p:64%}"
    ".e1{--p:12%}.e2{--p:24%}.e3{--p:36%}.e4{--p:48%}.e5{--p:56%}.e6{--p:64%}.e7{--p:72%}.e8{--p:80%}"
    ".confusion td[class^=h]{background:color-mix(in srgb,var(--c0) var(--p,0%),transparent)}"
    ".confusion td[class^=e]{background:color-mix(in srgb,var(--c1) var(--p,0%),transparent)}"
    ".ways{display:flex;justify-content:space-between;font-weight:400}"
    ".said{display:block;color:var(--quiet);font-size:.8rem;line-height:1.3}"
    ".notes{margin:0 0 14px;padding-left:1.2em;color:var(--quiet);font-size:.85rem}"
    "footer{padding-bottom:32px;color:var(--quiet);font-size:.8rem}",
    "@media (min-width:761px){.of1 .wide{display:block}.of1 .narrow{display:none}}"
    "@media (min-width:1000px){.figures.of2{grid-template-columns:1fr 1fr}.of2 .wide{display:block}"
    ".of2 .narrow{display:none}}"
    "@media print{.wide{display:block!important}.narrow{display:none}}"
    "@media (max-width:760px){"
    ".confusion th,.confusion td{padding:3px 4px}.confusion td{min-width:2.2em}"
    ".runs,.runs tbody{display:block}.runs tr{display:flex;flex-wrap:wrap;gap:4px 22px;padding:10px 0;"
    "border-bottom:1px solid var(--edge)}.runs th,.runs td{border:0;padding:0}.runs tbody th{flex:1 0 100%}"
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
    "@media print{body{background:none;font-size:11px}figure{break-inside:avoid;border-color:#bbb}nav{display:none}"
    "section{margin:18px 0}h2,h3{break-after:avoid}tr{break-inside:avoid}.scroll{overflow:visible}"
    "*{print-color-adjust:exact;-webkit-print-color-adjust:exact}}",
    NULL};
