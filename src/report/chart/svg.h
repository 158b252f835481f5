/* SPDX-License-Identifier: MIT */
/* Drawing primitives shared by the charts; used by src/report/chart alone. */
#ifndef REPORT_CHART_SVG_H
#define REPORT_CHART_SVG_H

#include "report/chart/chart.h"

typedef enum svg_anchor { SVG_START, SVG_MIDDLE, SVG_END } svg_anchor_t;

void svg_begin(FILE *out, double width, double height, const char *about);
void svg_line(FILE *out, const char *kind, double x0, double y0, double x1, double y1);
void svg_rect(FILE *out, const char *kind, double x, double y, double width, double height);

/* Estimated width, on the wide side: fonts differ. */
double svg_text_width(const char *text);
/* Draws text. Text wider than `room` is cut, with the full text in a tooltip. */
void svg_text(FILE *out, double x, double y, svg_anchor_t anchor, const char *kind, double room,
              const char *text);

/* Appends a cross, or a marker, to the data of a path. Each style has its shape. */
void svg_cross(FILE *out, double x, double y);
void svg_marker(FILE *out, int style, double x, double y, double radius);

/* A legend: names with samples, in lines as wide as the chart. */
typedef enum svg_sample {
    SVG_SAMPLE_LINE,
    SVG_SAMPLE_BAR,
    SVG_SAMPLE_PART,
    SVG_SAMPLE_TICK,
    SVG_SAMPLE_CROSS
} svg_sample_t;
typedef struct svg_entry {
    const char *name;
    svg_sample_t sample;
    int style;
    bool is_base, markers, plain, dashed;
} svg_entry_t;

/* Returns its height. out NULL: only that. */
double svg_legend(FILE *out, const svg_entry_t *entries, int n, double width, double y);

/* The classes of a series, as "c0 d0"; d: dashes distinguish it; v: it is dashed. */
figure_t svg_series_class(const svg_entry_t *series);

/* An axis, mapped to coordinates from … to of the drawing. */
typedef struct svg_scale {
    chart_scale_t scale;
    double low, high, from, to;
    int n_ticks;
    double ticks[CHART_MAX_TICKS];
    figure_t labels[CHART_MAX_TICKS];
} svg_scale_t;

/* A scale for values in [low, high]; low > high: no values. The caller may change from and to later. */
svg_scale_t svg_scale_make(const chart_axis_t *axis, double low, double high, int n_most);
bool svg_scale_has(const svg_scale_t *scale, double value); /* whether it can be drawn */
double svg_scale_at(const svg_scale_t *scale, double value);

#endif
