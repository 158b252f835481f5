/* SPDX-License-Identifier: MIT */
/* Line charts over two axes, with bands, whiskers, markers and reference lines. */
#include <math.h>
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

static double x_of(const plot_t *p, const chart_series_t *series, int i)
{
    return svg_scale_at(&p->x, series->x[i]) + p->shift;
}

static void widen_range(const svg_scale_t *scale, double value, double *low, double *high)
{
    if (!svg_scale_has(scale, value)) return;
    if (value < *low) *low = value;
    if (value > *high) *high = value;
}

static bool can_draw(const svg_scale_t *x, const svg_scale_t *y, const chart_series_t *series, int i)
{
    return svg_scale_has(x, series->x[i]) && svg_scale_has(y, series->y[i]);
}

/* Centre of a tick's label, kept within the drawing. */
static double label_at(const svg_scale_t *x, double width, int i, double *half)
{
    *half = svg_text_width(x->labels[i].text) / 2;
    return fmin(fmax(svg_scale_at(x, x->ticks[i]), *half), width - *half);
}

static bool has_room(const svg_scale_t *x, double width)
{
    double end = -INFINITY, half;
    for (int i = 0; i < x->n_ticks; i++) {
        double at = label_at(x, width, i, &half);
        if (at - half < end + LABEL_GAP) return false;
        end = at + half;
    }
    return true;
}

static void make_scales(plot_t *p)
{
    const chart_lines_t *chart = p->chart;
    double x_low = INFINITY, x_high = -INFINITY, y_low = INFINITY, y_high = -INFINITY;
    const svg_scale_t x = {.scale = chart->x.scale}, y = {.scale = chart->y.scale};
    for (int s = 0; s < chart->n_series; s++) {
        const chart_series_t *series = &chart->series[s];
        for (int i = 0; i < series->n; i++) {
            if (!can_draw(&x, &y, series, i)) continue;
            widen_range(&x, series->x[i], &x_low, &x_high);
            widen_range(&y, series->y[i], &y_low, &y_high);
            if (series->low) widen_range(&y, series->low[i], &y_low, &y_high);
            if (series->high) widen_range(&y, series->high[i], &y_low, &y_high);
        }
    }
    if (x_low <= x_high) widen_range(&y, chart->reference, &y_low, &y_high);
    p->y = svg_scale_make(&chart->y, y_low, y_high, 6);
    p->left = svg_scale_label_width(&p->y) + 8;
    p->right = p->width - RIGHT;
    /* Use as many ticks as have room for their labels. */
    for (int n_most = 7; n_most >= 3; n_most--) {
        double inset = chart->side_by_side ? BESIDE * chart->n_series / 2.0 : 0;
        p->x = svg_scale_make(&chart->x, x_low, x_high, n_most);
        p->x.from = p->left + inset;
        p->x.to = p->right - inset;
        if (has_room(&p->x, p->width)) break;
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

/* Along the upper ends and back along the lower; a gap in the values splits the band. */
static void draw_band(const plot_t *p, const chart_series_t *series, const char *kind)
{
    fprintf(p->out, "<path class=\"a %s\" d=\"", kind);
    for (int i = 0; i < series->n;) {
        int n = 0;
        while (i + n < series->n && can_draw(&p->x, &p->y, series, i + n) &&
               svg_scale_has(&p->y, series->low[i + n]) && svg_scale_has(&p->y, series->high[i + n]))
            n++;
        for (int k = 0; k < n; k++) {
            fputc(k ? 'L' : 'M', p->out);
            svg_point(p->out, x_of(p, series, i + k), svg_scale_at(&p->y, series->high[i + k]));
        }
        for (int k = n - 1; k >= 0; k--) {
            fputc('L', p->out);
            svg_point(p->out, x_of(p, series, i + k), svg_scale_at(&p->y, series->low[i + k]));
        }
        if (n > 0) fputc('z', p->out);
        i += n + 1;
    }
    fputs("\"/>\n", p->out);
}

static void draw_whiskers(const plot_t *p, const chart_series_t *series, const char *kind)
{
    fprintf(p->out, "<path class=\"w %s\" d=\"", kind);
    for (int i = 0; i < series->n; i++) {
        if (!can_draw(&p->x, &p->y, series, i) || !svg_scale_has(&p->y, series->low[i]) ||
            !svg_scale_has(&p->y, series->high[i]))
            continue;
        double x = x_of(p, series, i);
        double low = svg_scale_at(&p->y, series->low[i]), high = svg_scale_at(&p->y, series->high[i]);
        if (low - high < 1) continue;
        fputc('M', p->out);
        svg_point(p->out, x, low);
        fputc('L', p->out);
        svg_point(p->out, x, high);
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
    for (int i = 0; i < series->n && series->disturbed; i++) any |= series->disturbed[i];
    return any;
}

static void draw_series(plot_t *p, int index)
{
    const chart_series_t *series = &p->chart->series[index];
    if (p->chart->side_by_side) p->shift = BESIDE * (index - (p->chart->n_series - 1) / 2.0);
    bool markers = has_markers(series);
    chart_text_t kind = svg_series_class(series->style, markers, series->is_base);
    if (series->low && series->high && series->band) draw_band(p, series, kind.text);
    if (series->low && series->high && !series->band) draw_whiskers(p, series, kind.text);
    if (!series->no_line && series->n > 1) {
        bool pen_down = false;
        fprintf(p->out, "<path class=\"l %s\" d=\"", kind.text);
        for (int i = 0; i < series->n; i++) {
            bool there = can_draw(&p->x, &p->y, series, i);
            if (there) {
                fputc(pen_down ? 'L' : 'M', p->out);
                svg_point(p->out, x_of(p, series, i), svg_scale_at(&p->y, series->y[i]));
            }
            pen_down = there;
        }
        fputs("\"/>\n", p->out);
    }
    if (markers) {
        fprintf(p->out, "<path class=\"m %s\" d=\"", kind.text);
        for (int i = 0; i < series->n; i++)
            if (can_draw(&p->x, &p->y, series, i))
                svg_marker(p->out, series->style, x_of(p, series, i), svg_scale_at(&p->y, series->y[i]),
                           series->n > 30 ? 1.6 : 2.8);
        fputs("\"/>\n", p->out);
    }
    if (has_disturbed(series)) {
        fputs("<path class=\"x\" d=\"", p->out);
        for (int i = 0; i < series->n; i++)
            if (series->disturbed[i] && can_draw(&p->x, &p->y, series, i))
                svg_cross(p->out, x_of(p, series, i), svg_scale_at(&p->y, series->y[i]));
        fputs("\"/>\n", p->out);
    }
}

void chart_lines_draw(FILE *out, const chart_lines_t *chart)
{
    plot_t p = {.out = out, .chart = chart, .width = svg_width(chart->width)};
    svg_entry_t entries[CHART_MAX_SERIES + 1];
    bool crossed = false;
    int n = 0;
    ASSERT(chart->n_series <= CHART_MAX_SERIES);
    for (int i = 0; i < chart->n_series; i++) {
        const chart_series_t *s = &chart->series[i];
        if (s->name)
            entries[n++] = (svg_entry_t){s->name, SVG_SAMPLE_LINE, s->style, s->is_base, has_markers(s)};
        crossed |= has_disturbed(s);
    }
    if (crossed) entries[n++] = (svg_entry_t){.name = "disturbed", .sample = SVG_SAMPLE_CROSS};
    make_scales(&p);
    svg_begin(out, p.width, p.bottom + BELOW + svg_legend_height(entries, n, p.width), chart->about);
    double last_end = -INFINITY;
    for (int i = 0; i < p.y.n_ticks; i++) {
        double y = svg_scale_at(&p.y, p.y.ticks[i]);
        svg_line(p.out, "grid", p.left, y, p.right, y);
        svg_text(p.out, p.left - 5, y + 4, SVG_END, "", p.width, p.y.labels[i].text);
    }
    for (int i = 0; i < p.x.n_ticks; i++) {
        double x = svg_scale_at(&p.x, p.x.ticks[i]), half, at = label_at(&p.x, p.width, i, &half);
        svg_line(p.out, "axis", x, p.bottom, x, p.bottom + 4);
        if (at - half < last_end + LABEL_GAP) continue;
        svg_text(p.out, at, p.bottom + 15, SVG_MIDDLE, "", p.width, p.x.labels[i].text);
        last_end = at + half;
    }
    svg_line(p.out, "axis", p.left, p.bottom, p.right, p.bottom);
    svg_text(p.out, 0, 11, SVG_START, "", p.width, p.chart->y.title);
    svg_text(p.out, p.right, p.bottom + 29, SVG_END, "", p.width, p.chart->x.title);
    if (svg_scale_has(&p.y, p.chart->reference)) {
        double y = svg_scale_at(&p.y, p.chart->reference);
        if (y >= p.y.to - 0.01 && y <= p.bottom + 0.01) svg_line(p.out, "ref", p.left, y, p.right, y);
    }
    /* The base is drawn first, behind the others. */
    for (int i = 0; i < chart->n_series; i++)
        if (chart->series[i].is_base) draw_series(&p, i);
    for (int i = 0; i < chart->n_series; i++)
        if (!chart->series[i].is_base) draw_series(&p, i);
    draw_marks(&p);
    svg_legend(out, entries, n, p.width, p.bottom + BELOW);
    svg_end(out);
}
