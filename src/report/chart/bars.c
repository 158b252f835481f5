/* SPDX-License-Identifier: MIT */
/* Horizontal bar charts, stacked bars that split a total into parts, and a forest plot: ratios with their confidence
 * intervals around 1, drawn row by row for a table. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/stats.h"
#include "report/chart/svg.h"

enum { ROW_GAP = 7, BAR_ONE = 13, BAR_MANY = 11, AXIS_HEIGHT = 32, LABELS_SHARE = 46 };

static double value_of(const double *values, const chart_bars_t *chart, int row, int series)
{
    double value = values ? values[row * chart->n_series + series] : NAN;
    return isfinite(value) && value >= 0 && value < 1e150 ? value : NAN;
}

/* The text after a bar. */
static chart_text_t text_of(const chart_bars_t *chart, int row, int series)
{
    int at = row * chart->n_series + series;
    chart_text_t text = chart->figure ? chart->figure(chart->values[at]) : chart_label(chart->values[at]);
    size_t n = strlen(text.text);
    if (chart->disturbed && chart->disturbed[at]) snprintf(text.text + n, sizeof text.text - n, " !");
    return text;
}

/* Leaves room for the row names on the left and a figure after the longest bar. */
static svg_scale_t make_scale(const chart_bars_t *chart)
{
    double high = -INFINITY, names = 0, figures = 0;
    chart_axis_t axis = chart->axis;
    for (int row = 0; row < chart->n_rows; row++) {
        names = fmax(names, svg_text_width(chart->rows[row]));
        for (int s = 0; s < chart->n_series; s++) {
            double value = value_of(chart->values, chart, row, s);
            double most = fmax(value, value_of(chart->base, chart, row, s));
            most = fmax(most, value_of(chart->high, chart, row, s));
            if (isnan(most)) continue;
            high = fmax(high, most);
            if (!isnan(value)) figures = fmax(figures, svg_text_width(text_of(chart, row, s).text));
        }
    }
    axis.scale = CHART_LINEAR;
    axis.from_zero = true;
    svg_scale_t scale = svg_scale_make(&axis, 0, fmax(high, 0), 5);
    scale.from = fmin(names, svg_width(chart->width) * LABELS_SHARE / 100) + 8;
    scale.to = svg_width(chart->width) - figures - 4;
    return scale;
}

/* From the least to the greatest value. Returns the right end; `end` without a whisker. */
static double draw_whisker(FILE *out, const chart_bars_t *chart, const svg_scale_t *scale, int row,
                           int series, double y, double end)
{
    double low = value_of(chart->low, chart, row, series), high = value_of(chart->high, chart, row, series);
    if (isnan(low) || isnan(high)) return end;
    double from = svg_scale_at(scale, low), to = svg_scale_at(scale, high);
    if (to - from < 1) return end;
    svg_line(out, "wh", from, y, to, y);
    svg_line(out, "wh", from, y - 2, from, y + 2);
    svg_line(out, "wh", to, y - 2, to, y + 2);
    return fmax(end, to);
}

static void draw_bar(FILE *out, const chart_bars_t *chart, const svg_scale_t *scale, int row, int series,
                     double y)
{
    double height = chart->n_series > 1 ? BAR_MANY : BAR_ONE, width = svg_width(chart->width);
    double value = value_of(chart->values, chart, row, series),
           base = value_of(chart->base, chart, row, series);
    double end = scale->from;
    char kind[16];
    snprintf(kind, sizeof kind, "b c%d", series % CHART_COLOURS);
    if (!isnan(value)) {
        end = svg_scale_at(scale, value);
        svg_rect(out, kind, scale->from, y, fmax(end - scale->from, 0.5), height - 2);
        end = draw_whisker(out, chart, scale, row, series, y + (height - 2) / 2, end);
    }
    if (!isnan(base)) {
        double x = svg_scale_at(scale, base);
        svg_line(out, "tick", x, y - 1.5, x, y + height - 0.5);
        /* The text moves behind it. */
        if (!isnan(value) && x > end && x < end + svg_text_width(text_of(chart, row, series).text) + 8)
            end = x;
    }
    if (!isnan(value))
        svg_text(out, end + 4, y + height - 3, SVG_START, "ink sm", width, text_of(chart, row, series).text);
}

void chart_bars_draw(FILE *out, const chart_bars_t *chart)
{
    svg_entry_t entries[CHART_COLOURS + 2];
    int n = 0;
    ASSERT(chart->n_series >= 1 && chart->n_series <= CHART_COLOURS);
    for (int s = 0; s < chart->n_series && chart->n_series > 1; s++)
        entries[n++] = (svg_entry_t){.name = chart->series[s], .sample = SVG_SAMPLE_BAR, .style = s};
    if (chart->base_names) {
        if (chart->n_series == 1)
            entries[n++] = (svg_entry_t){.name = chart->base_names[0], .sample = SVG_SAMPLE_BAR};
        entries[n++] = (svg_entry_t){.name = chart->base_names[1], .sample = SVG_SAMPLE_TICK};
    }
    svg_scale_t scale = make_scale(chart);
    double height = chart->n_series > 1 ? BAR_MANY : BAR_ONE, group = chart->n_series * height;
    double bottom = 4 + chart->n_rows * (group + ROW_GAP), last_end = -INFINITY,
           width = svg_width(chart->width);
    svg_begin(out, width, bottom + AXIS_HEIGHT + svg_legend_height(entries, n, width), chart->about);
    for (int i = 0; i < scale.n_ticks; i++) {
        double x = svg_scale_at(&scale, scale.ticks[i]), half = svg_text_width(scale.labels[i].text) / 2;
        svg_line(out, i == 0 ? "axis" : "grid", x, 0, x, bottom);
        if (x - half < last_end + 6) continue;
        svg_text(out, x, bottom + 12, SVG_MIDDLE, "", width, scale.labels[i].text);
        last_end = x + half;
    }
    svg_text(out, width - 12, bottom + 26, SVG_END, "", width, chart->axis.title);
    double y = 4;
    for (int row = 0; row < chart->n_rows; row++, y += group + ROW_GAP) {
        svg_text(out, scale.from - 6, y + group / 2 + 3, SVG_END, "ink", scale.from - 6, chart->rows[row]);
        for (int s = 0; s < chart->n_series; s++) draw_bar(out, chart, &scale, row, s, y + s * height);
    }
    svg_legend(out, entries, n, width, bottom + AXIS_HEIGHT);
    svg_end(out);
}

enum { STACK_ROW = 40, STACK_BAR = 16 };

static void draw_stack_row(FILE *out, const chart_stack_t *chart, int row, double y)
{
    double x = 0, whole = svg_width(chart->width);
    char kind[16], text[16];
    double note = svg_text_width(chart->notes[row]);
    svg_text(out, 0, y + 12, SVG_START, "ink", whole - note - 10, chart->rows[row]);
    svg_text(out, whole, y + 12, SVG_END, "ink", whole, chart->notes[row]);
    svg_rect(out, "band", 0, y + 17, whole, STACK_BAR);
    for (int part = 0; part < chart->n_parts; part++) {
        double share = chart->shares[row * chart->n_parts + part];
        double width = share > 0 ? fmin(share * whole, whole - x) : 0;
        if (width < 0.05) continue;
        snprintf(kind, sizeof kind, "q%d gap", part % CHART_COLOURS);
        snprintf(text, sizeof text, "%.0f %%", 100 * fmin(share, 10));
        svg_rect(out, kind, x, y + 17, width, STACK_BAR);
        if (width > svg_text_width(text) + 4)
            svg_text(out, x + width / 2, y + 29, SVG_MIDDLE, "on", whole, text);
        x += width;
    }
}

void chart_stack_draw(FILE *out, const chart_stack_t *chart)
{
    svg_entry_t entries[CHART_COLOURS];
    int n = 0;
    ASSERT(chart->n_parts <= CHART_COLOURS);
    /* The legend has only parts that occur. */
    for (int part = 0; part < chart->n_parts; part++) {
        bool occurs = false;
        for (int row = 0; row < chart->n_rows; row++)
            occurs |= chart->shares[row * chart->n_parts + part] > 0;
        if (occurs) entries[n++] = (svg_entry_t){chart->parts[part], SVG_SAMPLE_PART, part, false, false};
    }
    double bottom = chart->n_rows * STACK_ROW + 2, width = svg_width(chart->width);
    svg_begin(out, width, bottom + svg_legend_height(entries, n, width), chart->about);
    for (int row = 0; row < chart->n_rows; row++) draw_stack_row(out, chart, row, row * STACK_ROW);
    svg_legend(out, entries, n, width, bottom);
    svg_end(out);
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

static void begin_row(FILE *out, const char *about)
{
    fprintf(out, "<svg viewBox=\"0 0 %d %d\" ", WIDTH, HEIGHT);
    if (about) {
        fputs("role=\"img\" aria-label=\"", out);
        chart_escape(out, about);
        fputs("\">", out);
    } else {
        fputs("aria-hidden=\"true\">", out);
    }
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
    begin_row(out, NULL);
    for (int i = 0; i < n; i++) {
        if (ticks[i] < 1 / forest->reach) continue;
        double x = ratio_to_x(forest, ticks[i]), half = svg_text_width(chart_label(ticks[i]).text) / 2;
        x = fmin(fmax(x, half), WIDTH - half);
        if (x - half < last_end + 3) continue;
        svg_text(out, x, 14, SVG_MIDDLE, "", WIDTH, chart_label(ticks[i]).text);
        last_end = x + half;
    }
    svg_end(out);
}

static void draw_arrow(FILE *out, const char *kind, double x, double sign)
{
    fprintf(out, "<path class=\"m %s\" d=\"M", kind);
    svg_point(out, x + sign * 8, HEIGHT / 2.0);
    fprintf(out, "l%g -4v8z\"/>", -sign * 7);
}

void chart_forest_row(FILE *out, const chart_forest_t *forest, double ratio, double low, double high,
                      const char *kind, const char *about)
{
    char text[48];
    double middle = HEIGHT / 2.0, left = ratio_to_x(forest, 1 / forest->band),
           right = ratio_to_x(forest, forest->band);
    begin_row(out, about);
    if (right > left) {
        fputs("<path class=\"band\" d=\"M", out);
        svg_point(out, left, 0);
        fputc('H', out);
        svg_number(out, right);
        fprintf(out, "V%dH", HEIGHT);
        svg_number(out, left);
        fputs("z\"/>", out);
    }
    fprintf(out, "<path class=\"one\" d=\"M%d 0v%d\"/>", WIDTH / 2, HEIGHT);
    if (low > 0 && isfinite(low) && isfinite(high)) {
        snprintf(text, sizeof text, "l %s", kind);
        svg_line(out, text, ratio_to_x(forest, low), middle, ratio_to_x(forest, high), middle);
        if (low < 1 / forest->reach) draw_arrow(out, kind, ratio_to_x(forest, low), -1);
        if (high > forest->reach) draw_arrow(out, kind, ratio_to_x(forest, high), 1);
    }
    if (ratio > 0 && isfinite(ratio)) {
        fprintf(out, "<path class=\"m %s\" d=\"", kind);
        svg_marker(out, 3, ratio_to_x(forest, ratio), middle, 3.4);
        fputs("\"/>", out);
    }
    svg_end(out);
}
