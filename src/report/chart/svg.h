/* SPDX-License-Identifier: MIT */
/* What all charts are drawn with; for this room alone. Coordinates have one decimal. */
#ifndef REPORT_CHART_SVG_H
#define REPORT_CHART_SVG_H

#include "report/chart/chart.h"

enum { SVG_FONT = 11, SVG_LEGEND_LINE = 17 };

typedef enum svg_anchor { SVG_START, SVG_MIDDLE, SVG_END } svg_anchor_t;

void svg_begin(FILE *out, double height, const char *about);
void svg_end(FILE *out);

/* Without needless zeros; what is no number is 0. */
void svg_number(FILE *out, double value);
void svg_point(FILE *out, double x, double y); /* "12.5 7" */
void svg_line(FILE *out, const char *kind, double x0, double y0, double x1, double y1);
void svg_rect(FILE *out, const char *kind, double x, double y, double width, double height);

/* An estimate that is rather too wide: fonts differ. */
double svg_text_width(const char *text);
/* One that is wider than `room` is cut, with the whole in a tooltip. */
void svg_text(FILE *out, double x, double y, svg_anchor_t anchor, const char *kind, double room,
              const char *text);

/* Appends a marker to a path's data: each style has its shape. */
void svg_marker(FILE *out, int style, double x, double y, double radius);

/* Names with what they look like, in lines as wide as the chart. */
typedef enum svg_sample { SVG_SAMPLE_LINE, SVG_SAMPLE_BAR, SVG_SAMPLE_PART, SVG_SAMPLE_TICK } svg_sample_t;
typedef struct svg_entry {
    const char *name;
    svg_sample_t sample;
    int style;
    bool is_base, markers;
} svg_entry_t;

double svg_legend_height(const svg_entry_t *entries, int n);
void svg_legend(FILE *out, const svg_entry_t *entries, int n, double y);

/* The classes of a series, "c0 d0", into text: d where dashes tell. */
chart_text_t svg_series_class(int style, bool markers, bool is_base);

/* An axis that lies on from … to of the drawing. */
typedef struct svg_scale {
    chart_scale_t scale;
    double low, high, from, to;
    int n_ticks;
    double ticks[CHART_MAX_TICKS];
    chart_text_t labels[CHART_MAX_TICKS];
} svg_scale_t;

/* For values from low to high (low > high: there are none). from, to may be set anew later. */
svg_scale_t svg_scale_make(const chart_axis_t *axis, double low, double high, int n_most);
bool svg_scale_has(const svg_scale_t *scale, double value); /* whether it can be drawn at all */
double svg_scale_at(const svg_scale_t *scale, double value);
double svg_scale_label_width(const svg_scale_t *scale);

#endif
