/* SPDX-License-Identifier: MIT */
/* Tables of values: horizontal bars, stacked bars that split a total into parts, and a forest plot, ratios with
 * their confidence intervals around 1, drawn row by row for a table. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/stats.h"
#include "report/chart/svg.h"

enum { ROW_GAP = 7, BAR_ONE = 13, BAR_MANY = 11, AXIS_HEIGHT = 32, LABELS_SHARE = 46 };

static double drawable(double value)
{
    return value >= 0 && value < 1e150 ? value : NAN;
}

/* The text after a bar. */
static figure_t text_of(const chart_table_t *chart, chart_value_t value)
{
    figure_t text = chart->figure(value.y);
    size_t n = strlen(text.text);
    if (value.disturbed) snprintf(text.text + n, sizeof text.text - n, " !");
    return text;
}

/* Leaves room for the row names on the left and a figure after the longest bar. */
static svg_scale_t make_scale(const chart_table_t *chart, int n_series, double width)
{
    double high = 0, names = 0, figures = 0;
    const chart_axis_t axis = {.from_zero = true};
    for (int i = 0; i < chart->n_rows * n_series; i++) {
        chart_value_t value = chart->values[i];
        high = fmax(high, fmax(drawable(value.y), drawable(value.high)));
        if (chart->base) high = fmax(high, drawable(chart->base[i].y));
        if (!isnan(drawable(value.y))) figures = fmax(figures, svg_text_width(text_of(chart, value).text));
    }
    for (int row = 0; row < chart->n_rows; row++) names = fmax(names, svg_text_width(chart->rows[row]));
    svg_scale_t scale = svg_scale_make(&axis, 0, high, 5);
    scale.from = fmin(names, width * LABELS_SHARE / 100) + 8;
    scale.to = width - figures - 4;
    return scale;
}

static void draw_bars(FILE *out, const chart_table_t *chart, int n_series, double width)
{
    svg_entry_t entries[CHART_COLOURS + 1];
    char kind[16];
    int n = 0;
    for (int s = 0; s < n_series && (n_series > 1 || chart->base); s++)
        entries[n++] = (svg_entry_t){
            .name = n_series > 1 ? chart->series[s] : "new", .sample = SVG_SAMPLE_BAR, .style = s};
    if (chart->base) entries[n++] = (svg_entry_t){.name = "base", .sample = SVG_SAMPLE_TICK};
    svg_scale_t scale = make_scale(chart, n_series, width);
    double height = n_series > 1 ? BAR_MANY : BAR_ONE, group = n_series * height, y = 4;
    double bottom = 4 + chart->n_rows * (group + ROW_GAP), last_end = -INFINITY;
    svg_begin(out, width, bottom + AXIS_HEIGHT + svg_legend(NULL, entries, n, width, 0), chart->about);
    for (int i = 0; i < scale.n_ticks; i++) {
        double x = svg_scale_at(&scale, scale.ticks[i]), half = svg_text_width(scale.labels[i].text) / 2;
        svg_line(out, i == 0 ? "axis" : "grid", x, 0, x, bottom);
        if (x - half < last_end + 6) continue;
        svg_text(out, x, bottom + 12, SVG_MIDDLE, "", width, scale.labels[i].text);
        last_end = x + half;
    }
    svg_text(out, width - 12, bottom + 26, SVG_END, "", width, chart->axis);
    for (int row = 0; row < chart->n_rows; row++, y += ROW_GAP) {
        svg_text(out, scale.from - 6, y + group / 2 + 3, SVG_END, "ink", scale.from - 6, chart->rows[row]);
        for (int s = 0; s < n_series; s++, y += height) {
            chart_value_t value = chart->values[s * chart->n_rows + row];
            double end = scale.from, base = chart->base ? chart->base[s * chart->n_rows + row].y : NAN;
            bool there = !isnan(drawable(value.y));
            if (there) {
                double from = svg_scale_at(&scale, drawable(value.low)), middle = y + (height - 2) / 2;
                double to = svg_scale_at(&scale, drawable(value.high));
                end = svg_scale_at(&scale, value.y);
                snprintf(kind, sizeof kind, "b c%d", s);
                svg_rect(out, kind, scale.from, y, fmax(end - scale.from, 0.5), height - 2);
                if (to - from >= 1) {
                    svg_line(out, "wh", from, middle, to, middle);
                    svg_line(out, "wh", from, middle - 2, from, middle + 2);
                    svg_line(out, "wh", to, middle - 2, to, middle + 2);
                    end = fmax(end, to);
                }
            }
            if (!isnan(drawable(base))) {
                double x = svg_scale_at(&scale, base);
                svg_line(out, "tick", x, y - 1.5, x, y + height - 0.5);
                /* The text moves behind it. */
                if (there && x > end && x < end + svg_text_width(text_of(chart, value).text) + 8) end = x;
            }
            if (there)
                svg_text(out, end + 4, y + height - 3, SVG_START, "ink sm", width,
                         text_of(chart, value).text);
        }
    }
    svg_legend(out, entries, n, width, bottom + AXIS_HEIGHT);
}

enum { TOTAL_ROW = 40, TOTAL_BAR = 16 };

static void draw_totals(FILE *out, const chart_table_t *chart, int n_series, double width)
{
    svg_entry_t entries[CHART_COLOURS];
    char kind[16], text[16];
    int n = 0, n_rows = chart->n_rows < CHART_MAX_TOTALS ? chart->n_rows : CHART_MAX_TOTALS;
    /* The legend has only parts that occur. */
    for (int s = 0; s < n_series; s++) {
        bool occurs = false;
        for (int row = 0; row < n_rows; row++) occurs |= chart->values[s * chart->n_rows + row].y > 0;
        if (occurs)
            entries[n++] = (svg_entry_t){.name = chart->series[s], .sample = SVG_SAMPLE_PART, .style = s};
    }
    double bottom = n_rows * TOTAL_ROW + 2;
    svg_begin(out, width, bottom + svg_legend(NULL, entries, n, width, 0), chart->about);
    for (int row = 0; row < n_rows; row++) {
        double x = 0, y = row * TOTAL_ROW;
        svg_text(out, 0, y + 12, SVG_START, "ink", width - svg_text_width(chart->notes[row]) - 10,
                 chart->rows[row]);
        svg_text(out, width, y + 12, SVG_END, "ink", width, chart->notes[row]);
        svg_rect(out, "band", 0, y + 17, width, TOTAL_BAR);
        for (int s = 0; s < n_series; s++) {
            double share = chart->values[s * chart->n_rows + row].y;
            double part = share > 0 ? fmin(share * width, width - x) : 0;
            if (part < 0.05) continue;
            snprintf(kind, sizeof kind, "q%d gap", s);
            snprintf(text, sizeof text, "%.0f %%", 100 * fmin(share, 10));
            svg_rect(out, kind, x, y + 17, part, TOTAL_BAR);
            if (part > svg_text_width(text) + 4)
                svg_text(out, x + part / 2, y + 29, SVG_MIDDLE, "on", width, text);
            x += part;
        }
    }
    svg_legend(out, entries, n, width, bottom);
}

void chart_table_draw(FILE *out, const chart_table_t *chart, int width)
{
    int n_series = chart->n_series < CHART_COLOURS ? chart->n_series : CHART_COLOURS;
    (chart->notes ? draw_totals : draw_bars)(out, chart, n_series, width);
    fputs("</svg>\n", out);
}

enum { WIDTH = 240, HEIGHT = 20, EDGE = 14 };

double chart_forest_reach(double *ratios, int n, double band)
{
    int n_finite = 0;
    for (int i = 0; i < n; i++)
        if (ratios[i] > 0 && isfinite(ratios[i])) ratios[n_finite++] = exp(fabs(log(ratios[i])));
    stats_sort(ratios, n_finite);
    double most = n_finite > 0 ? stats_quantile(ratios, n_finite, 0.95) : 1;
    return fmin(fmax(1.05 * most, fmax(1.1, 1 + 2.5 * (band - 1))), 4);
}

static double ratio_to_x(const chart_forest_t *forest, double ratio)
{
    double half = WIDTH / 2.0 - EDGE, share = log(ratio) / log(forest->reach);
    return WIDTH / 2.0 + half * fmin(fmax(share, -1), 1);
}

static void begin_row(FILE *out)
{
    chart_put(out, "<svg viewBox=\"0 0 %d %d\" aria-hidden=\"true\">", WIDTH, HEIGHT);
}

void chart_forest_axis(FILE *out, const chart_forest_t *forest)
{
    double ticks[CHART_MAX_TICKS], last_end = -INFINITY;
    int n = chart_ticks(CHART_LOG, 1 / forest->reach, forest->reach, 5, ticks);
    /* The ticks must include 1; round values of a logarithmic axis may not. */
    if (forest->reach < 2) {
        double step = (forest->reach - 1) / 2;
        double unit = pow(10, floor(log10(step)));
        step = floor(step / unit) * unit;
        n = 0;
        for (int i = -2; i <= 2; i++) ticks[n++] = 1 + i * step;
    }
    begin_row(out);
    for (int i = 0; i < n; i++) {
        if (ticks[i] < 1 / forest->reach) continue;
        double x = ratio_to_x(forest, ticks[i]), half = svg_text_width(chart_label(ticks[i]).text) / 2;
        x = fmin(fmax(x, half), WIDTH - half);
        if (x - half < last_end + 3) continue;
        svg_text(out, x, 14, SVG_MIDDLE, "", WIDTH, chart_label(ticks[i]).text);
        last_end = x + half;
    }
    fputs("</svg>\n", out);
}

void chart_forest_row(FILE *out, const chart_forest_t *forest, chart_value_t ratio, const char *kind)
{
    char line[48];
    double middle = HEIGHT / 2.0, left = ratio_to_x(forest, 1 / forest->band),
           right = ratio_to_x(forest, forest->band);
    begin_row(out);
    if (right > left)
        chart_put(out, "<path class=\"band\" d=\"M%f 0H%fV%dH%fz\"/>", left, right, HEIGHT, left);
    chart_put(out, "<path class=\"one\" d=\"M%d 0v%d\"/>", WIDTH / 2, HEIGHT);
    if (ratio.low > 0 && isfinite(ratio.low) && isfinite(ratio.high)) {
        double from = ratio_to_x(forest, ratio.low), to = ratio_to_x(forest, ratio.high);
        snprintf(line, sizeof line, "l %s", kind);
        svg_line(out, line, from, middle, to, middle);
        if (ratio.low < 1 / forest->reach)
            chart_put(out, "<path class=\"m %s\" d=\"M%f %fl7 -4v8z\"/>", kind, from - 8, middle);
        if (ratio.high > forest->reach)
            chart_put(out, "<path class=\"m %s\" d=\"M%f %fl-7 -4v8z\"/>", kind, to + 8, middle);
    }
    if (ratio.y > 0 && isfinite(ratio.y)) {
        chart_put(out, "<path class=\"m %s\" d=\"", kind);
        svg_marker(out, 3, ratio_to_x(forest, ratio.y), middle, 3.4);
        fputs("\"/>", out);
    }
    fputs("</svg>\n", out);
}
