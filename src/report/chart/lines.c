/* SPDX-License-Identifier: MIT */
/* Line charts over two axes, with bands, whiskers, markers and reference lines. */
#include <math.h>
#include <stdint.h>
#include <stdio.h>

#include "base/err.h"
#include "report/chart/svg.h"

enum { TOP = 20, PLOT_HEIGHT = 170, BELOW = 34, RIGHT = 12 };

enum { BESIDE = 4, LABEL_GAP = 4 }; /* BESIDE: offset between series side by side */

typedef struct plot {
    FILE *out;
    const chart_lines_t *chart;
    svg_scale_t x, y;
    double width, left, right, bottom; /* of the frame */
    double shift;                      /* of the current series */
} plot_t;

static bool can_draw(const plot_t *p, chart_value_t value)
{
    return svg_scale_has(&p->x, value.x) && svg_scale_has(&p->y, value.y);
}

static bool has_interval(const plot_t *p, chart_value_t value)
{
    return can_draw(p, value) && svg_scale_has(&p->y, value.low) && svg_scale_has(&p->y, value.high);
}

/* The value that is drawn. */
static double drawn_value(const plot_t *p, double y)
{
    const double most = p->chart->y.at_most;
    return most > 0 && y > most ? most : y;
}

/* Moves (M) or draws a line (L) to a place of the current series. */
static void put_point(const plot_t *p, char how, double x, double y)
{
    fputc(how, p->out);
    chart_put(p->out, "%f %f", svg_scale_at(&p->x, x) + p->shift, svg_scale_at(&p->y, drawn_value(p, y)));
}

static void widen_range(const svg_scale_t *scale, double value, double *low, double *high)
{
    if (!svg_scale_has(scale, value)) return;
    if (value < *low) *low = value;
    if (value > *high) *high = value;
}

/* Centre of a tick's label, kept within the drawing. */
static double label_at(const plot_t *p, int i, double *half)
{
    *half = svg_text_width(p->x.labels[i].text) / 2;
    return fmin(fmax(svg_scale_at(&p->x, p->x.ticks[i]), *half), p->width - *half);
}

static bool has_room(const plot_t *p)
{
    double end = -INFINITY, half;
    for (int i = 0; i < p->x.n_ticks; i++) {
        double at = label_at(p, i, &half);
        if (at - half < end + LABEL_GAP) return false;
        end = at + half;
    }
    return true;
}

static void make_scales(plot_t *p)
{
    const chart_lines_t *chart = p->chart;
    double x_low = INFINITY, x_high = -INFINITY, y_low = INFINITY, y_high = -INFINITY, labels = 0;
    p->x.scale = chart->x.scale;
    p->y.scale = chart->y.scale;
    for (int s = 0; s < chart->n_series; s++)
        for (int i = 0; i < chart->series[s].n; i++) {
            chart_value_t value = chart->series[s].at[i];
            if (!can_draw(p, value)) continue;
            widen_range(&p->x, value.x, &x_low, &x_high);
            widen_range(&p->y, drawn_value(p, value.y), &y_low, &y_high);
            widen_range(&p->y, drawn_value(p, value.low), &y_low, &y_high);
            widen_range(&p->y, drawn_value(p, value.high), &y_low, &y_high);
        }
    if (x_low <= x_high) widen_range(&p->y, chart->reference, &y_low, &y_high);
    p->y = svg_scale_make(&chart->y, y_low, y_high, 6);
    for (int i = 0; i < p->y.n_ticks; i++) labels = fmax(labels, svg_text_width(p->y.labels[i].text));
    p->left = labels + 8;
    p->right = p->width - RIGHT;
    /* Use as many ticks as have room for their labels. */
    for (int n_most = 7; n_most >= 3; n_most--) {
        double inset = chart->side_by_side ? BESIDE * chart->n_series / 2.0 : 0;
        p->x = svg_scale_make(&chart->x, x_low, x_high, n_most);
        p->x.from = p->left + inset;
        p->x.to = p->right - inset;
        if (has_room(p)) break;
    }
    p->y.from = p->bottom = TOP + (chart->height > 0 ? chart->height : PLOT_HEIGHT);
    p->y.to = TOP;
}

static void draw_marks(const plot_t *p)
{
    double last_end = -INFINITY;
    for (int i = 0; i < p->chart->n_marks; i++) {
        const chart_mark_t *mark = &p->chart->marks[i];
        if (!svg_scale_has(&p->x, mark->x)) continue;
        double x = svg_scale_at(&p->x, mark->x), width = svg_text_width(mark->label);
        if (x < p->left || x > p->right) continue;
        svg_line(p->out, "mark", x, TOP, x, p->bottom);
        double at = fmin(x + 4, p->width - width);
        if (at < last_end + 4) continue;
        svg_text(p->out, at, TOP + 9, SVG_START, "ink sm", p->width, mark->label);
        last_end = at + width;
    }
}

/* As a band, along the upper ends and back along the lower; a gap in the values splits it. Or as whiskers. */
static void draw_intervals(const plot_t *p, const chart_series_t *series, const char *kind)
{
    bool any = false;
    for (int i = 0; i < series->n; i++) any |= series->at[i].high > series->at[i].low;
    if (!any) return;
    chart_put(p->out, "<path class=\"%s %s\" d=\"", series->band ? "a" : "w", kind);
    for (int i = 0, n; i < series->n; i += n + 1) {
        const chart_value_t *at = series->at + i;
        for (n = 0; i + n < series->n && has_interval(p, at[n]); n++) {
            if (series->band)
                put_point(p, n ? 'L' : 'M', at[n].x, at[n].high);
            else if (svg_scale_at(&p->y, at[n].low) - svg_scale_at(&p->y, at[n].high) >= 1) {
                put_point(p, 'M', at[n].x, at[n].low);
                put_point(p, 'L', at[n].x, at[n].high);
            }
        }
        for (int k = n - 1; k >= 0 && series->band; k--) put_point(p, 'L', at[k].x, at[k].low);
        if (n > 0 && series->band) fputc('z', p->out);
    }
    fputs("\"/>\n", p->out);
}

/* A line with a single value is invisible without a marker. */
static bool has_markers(const chart_series_t *series)
{
    return series->markers || series->n == 1;
}

static bool has_disturbed(const chart_series_t *series)
{
    bool any = false;
    for (int i = 0; i < series->n; i++) any |= series->at[i].disturbed;
    return any;
}

static svg_entry_t entry_of(const chart_series_t *s)
{
    return (svg_entry_t){s->name, SVG_SAMPLE_LINE, s->style, s->is_base, has_markers(s), s->plain, s->dashed};
}

static void draw_series(plot_t *p, int index)
{
    const chart_series_t *series = &p->chart->series[index];
    if (p->chart->side_by_side) p->shift = BESIDE * (index - (p->chart->n_series - 1) / 2.0);
    if (series->n == 0) return;
    bool markers = has_markers(series), pen_down = false;
    const svg_entry_t entry = entry_of(series);
    figure_t kind = svg_series_class(&entry);
    draw_intervals(p, series, kind.text);
    if (!series->no_line && series->n > 1) {
        chart_put(p->out, "<path class=\"l %s\" d=\"", kind.text);
        for (int i = 0; i < series->n; i++) {
            bool there = can_draw(p, series->at[i]);
            if (there) put_point(p, pen_down ? 'L' : 'M', series->at[i].x, series->at[i].y);
            pen_down = there;
        }
        fputs("\"/>\n", p->out);
    }
    for (int crosses = 0; crosses < 2; crosses++) {
        if (!(crosses ? has_disturbed(series) : markers)) continue;
        chart_put(p->out, "<path class=\"%s%s\" d=\"", crosses ? "x" : "m ", crosses ? "" : kind.text);
        for (int i = 0; i < series->n; i++) {
            if (!can_draw(p, series->at[i]) || (crosses && !series->at[i].disturbed)) continue;
            double x = svg_scale_at(&p->x, series->at[i].x) + p->shift,
                   y = svg_scale_at(&p->y, drawn_value(p, series->at[i].y));
            if (crosses)
                svg_cross(p->out, x, y);
            else
                svg_marker(p->out, series->style, x, y, series->n > 30 ? 1.6 : 2.8);
        }
        fputs("\"/>\n", p->out);
    }
}

enum { PLACES = 48 };

/* The value of a series nearest to x among those from `low` to `high`; its y is NAN if there is none. */
static chart_value_t nearest_value(const plot_t *p, const chart_series_t *series, double x, double low,
                                   double high)
{
    chart_value_t best = chart_point(NAN, NAN);
    for (int i = 0; i < series->n; i++) {
        const chart_value_t value = series->at[i];
        if (!can_draw(p, value) || value.x < low || value.x > high) continue;
        if (isnan(best.y) || fabs(value.x - x) < fabs(best.x - x)) best = value;
    }
    return best;
}

/* A strip over a place, whose tooltip has the place and each series' value there. */
static void draw_place(const plot_t *p, double x, double low, double high)
{
    const chart_lines_t *chart = p->chart;
    const double from = fmax(svg_scale_at(&p->x, low), p->left),
                 to = fmin(svg_scale_at(&p->x, high), p->right);
    chart_put(p->out, "<rect class=\"hit\" x=\"%f\" y=\"%d\" width=\"%f\" height=\"%f\"><title>%s %s", from,
              TOP, fmax(to - from, 1), p->bottom - TOP, chart->x.title, figure_number(x).text);
    for (int s = 0; s < chart->n_series; s++) {
        const chart_series_t *series = &chart->series[s];
        const chart_value_t value = nearest_value(p, series, x, low, high);
        const char *name = series->about ? series->about : series->name;
        if (isnan(value.y)) continue;
        chart_put(p->out, "\n%s%s%s", name ? name : "", name ? ": " : "",
                  (chart->y.label ? chart->y.label(value.y) : figure_number(value.y)).text);
    }
    fputs("</title></rect>\n", p->out);
}

/* Strips over the whole plot: around the values of the series that has most, or over PLACES of them. */
static void draw_places(const plot_t *p)
{
    const chart_lines_t *chart = p->chart;
    const chart_series_t *most = &chart->series[0];
    double x[PLACES];
    int n = 0;
    for (int s = 1; s < chart->n_series; s++)
        if (chart->series[s].n > most->n) most = &chart->series[s];
    for (int i = 0; i < most->n && n < PLACES; i++) {
        const chart_value_t value = most->at[most->n <= PLACES ? i : (int)((int64_t)i * most->n / PLACES)];
        if (can_draw(p, value) && (n == 0 || value.x > x[n - 1])) x[n++] = value.x;
    }
    for (int i = 0; i < n; i++)
        draw_place(p, x[i], i > 0 ? (x[i - 1] + x[i]) / 2 : p->x.low,
                   i + 1 < n ? (x[i] + x[i + 1]) / 2 : p->x.high);
}

void chart_lines_draw(FILE *out, const chart_lines_t *chart, int width)
{
    plot_t p = {.out = out, .chart = chart, .width = width};
    svg_entry_t entries[CHART_MAX_SERIES + 1];
    bool crossed = false;
    int n = 0;
    ASSERT(chart->n_series <= CHART_MAX_SERIES);
    for (int i = 0; i < chart->n_series; i++) {
        const chart_series_t *s = &chart->series[i];
        if (s->name) entries[n++] = entry_of(s);
        crossed |= has_disturbed(s);
    }
    if (crossed) entries[n++] = (svg_entry_t){.name = "disturbed", .sample = SVG_SAMPLE_CROSS};
    make_scales(&p);
    svg_begin(out, width, p.bottom + BELOW + svg_legend(NULL, entries, n, width, 0), chart->about);
    double last_end = -INFINITY;
    for (int i = 0; i < p.y.n_ticks; i++) {
        double y = svg_scale_at(&p.y, p.y.ticks[i]);
        svg_line(out, "grid", p.left, y, p.right, y);
        svg_text(out, p.left - 5, y + 4, SVG_END, "", width, p.y.labels[i].text);
    }
    for (int i = 0; i < p.x.n_ticks; i++) {
        double x = svg_scale_at(&p.x, p.x.ticks[i]), half, at = label_at(&p, i, &half);
        svg_line(out, "axis", x, p.bottom, x, p.bottom + 4);
        if (at - half < last_end + LABEL_GAP) continue;
        svg_text(out, at, p.bottom + 15, SVG_MIDDLE, "", width, p.x.labels[i].text);
        last_end = at + half;
    }
    svg_line(out, "axis", p.left, p.bottom, p.right, p.bottom);
    svg_text(out, 0, 11, SVG_START, "", width, chart->y.title);
    svg_text(out, p.right, p.bottom + 29, SVG_END, "", width, chart->x.title);
    if (svg_scale_has(&p.y, chart->reference)) {
        double y = svg_scale_at(&p.y, chart->reference);
        if (y >= p.y.to - 0.01 && y <= p.bottom + 0.01) svg_line(out, "ref", p.left, y, p.right, y);
    }
    /* The base is drawn first, behind the others. */
    for (int i = 0; i < chart->n_series; i++)
        if (chart->series[i].is_base) draw_series(&p, i);
    for (int i = 0; i < chart->n_series; i++)
        if (!chart->series[i].is_base) draw_series(&p, i);
    draw_marks(&p);
    if (chart->values && chart->n_series > 0) draw_places(&p);
    svg_legend(out, entries, n, width, p.bottom + BELOW);
    fputs("</svg>\n", out);
}
