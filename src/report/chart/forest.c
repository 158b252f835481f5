/* SPDX-License-Identifier: MIT */
/* A forest plot: ratios with their confidence intervals around 1, drawn row by row for a table. */
#include <math.h>
#include <stdio.h>

#include "base/stats.h"
#include "report/chart/svg.h"

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
