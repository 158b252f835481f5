/* SPDX-License-Identifier: MIT */
/* Charts as SVG for an HTML page. One unit is about a pixel: a chart of CHART_WIDTH fits a phone, and several
 * fit side by side on a laptop. Title and caption belong to the page. Colours are variables of the style sheet
 * (chart_css), so one drawing serves light mode, dark mode and print. Series differ in marker, dash or position
 * as well as in colour.
 *
 * Texts are escaped and cut to the available room, with the full text in a tooltip. Values that are not
 * finite, or not above 0 on a logarithmic axis, are not drawn. The same input gives the same bytes. Errors of
 * `out` are left to the caller. Not collective. */
#ifndef REPORT_CHART_CHART_H
#define REPORT_CHART_CHART_H

#include <math.h>
#include <stdbool.h>
#include <stdio.h>

#include "text/figure.h"

enum {
    CHART_WIDTH = 360,
    CHART_COLOURS = 8,
    CHART_MAX_SERIES = 18,
    CHART_MAX_TOTALS = 24,
    CHART_MAX_TICKS = 12
};

/* For <style>: colours in both modes as --c0 … (lines and bars) and --q0 … (stacked parts), and the classes
 * of all elements. */
extern const char chart_css[];

/* Writes markup. A text for %s or %.*s is escaped: markup, quotes, control and direction characters. %f is a
 * coordinate: one decimal, no trailing zeros, 0 if not finite. Also %d and %%. */
void chart_put(FILE *out, const char *markup, ...) __attribute__((format(printf, 2, 3)));

typedef enum chart_scale {
    CHART_LINEAR,
    CHART_LOG,
    CHART_LOG2
} chart_scale_t; /* LOG2: ticks at powers of two */

typedef struct chart_axis {
    const char *title; /* with the unit, as "busbw, GB/s" */
    chart_scale_t scale;
    bool from_zero;                  /* LINEAR: includes 0 */
    double at_least;                 /* LINEAR: includes this value; 0: no such value */
    double at_most;                  /* larger values are drawn at this one; 0: no such value */
    figure_t (*label)(double value); /* formats a tick; NULL: chart_label */
} chart_axis_t;

/* "0.25", "10k", "1.5M", "2e-07". */
figure_t chart_label(double value);

/* Round values for the ticks of an axis, ascending. Returns their number, at least one.
 *
 *   low, high  finite, low ≤ high; above 0 on a logarithmic scale
 *   n_most     maximum number, 3 … CHART_MAX_TICKS
 *   out        [n_most]; within [low, high] if the scale has such values */
int chart_ticks(chart_scale_t scale, double low, double high, int n_most, double *out);

/* A value y with its interval; x: on a curve. NAN: none. */
typedef struct chart_value {
    double x, y, low, high;
    int n;          /* measurements behind it */
    bool disturbed; /* crossed out, or followed by ! */
} chart_value_t;

static inline chart_value_t chart_point(double x, double y)
{
    return (chart_value_t){x, y, NAN, NAN, 0, false};
}

/* style: index of colour, marker and dash; use the same index for the same thing on all charts. -1: of nothing, grey. */
typedef struct chart_series {
    const char *name;  /* in the legend; NULL: omitted */
    const char *about; /* beside values under the mouse; NULL: the name */
    int style, n;      /* n 0: in the legend alone */
    const chart_value_t *at;
    bool band;    /* intervals as a band behind the line; otherwise as whiskers */
    bool markers; /* at the values; without markers, dashes distinguish lines, unless they are `plain` */
    bool plain, dashed;
    bool no_line;
    bool is_base; /* the base of a comparison: thin, dashed, hollow */
} chart_series_t;

/* A labelled vertical line. */
typedef struct chart_mark {
    double x;
    const char *label;
} chart_mark_t;

typedef struct chart_lines {
    const char *about; /* text alternative, one sentence */
    chart_axis_t x, y;
    const chart_series_t *series;
    int n_series; /* at most CHART_MAX_SERIES */
    const chart_mark_t *marks;
    int n_marks;
    double reference; /* horizontal line, as 1 for ideal scaling; NAN: none */
    int height;       /* of the plot; 0: default */
    bool values;      /* shows the values at the mouse's place, from `x.title` on; a tooltip for each place */
    bool side_by_side; /* offset series horizontally; for x with few distinct values */
} chart_lines_t;

void chart_lines_draw(FILE *out, const chart_lines_t *chart, int width);

/* A table of values as horizontal bars from 0, a bar for each series of a row; with notes, a row is a total, and
 * the series are its parts. Draws at most CHART_COLOURS series and CHART_MAX_TOTALS totals. */
typedef struct chart_table {
    const char *about;
    const char *axis;                 /* bars: title with the unit */
    figure_t (*figure)(double value); /* bars: formats the value after a bar */
    const char *const *rows;          /* [n_rows] */
    const char *const *series;        /* [n_series]; a single one has no legend */
    const char *const *notes;         /* [n_rows] totals, at the right end; NULL: bars */
    int n_rows, n_series;
    const chart_value_t *values; /* [n_series, n_rows]; of totals fractions of 1; the remainder stays empty */
    const chart_value_t *base;   /* the same of a base, drawn as ticks on the bars; NULL: none */
} chart_table_t;

void chart_table_draw(FILE *out, const chart_table_t *chart, int width);

/* Ratios with intervals, one drawing per row, on a common logarithmic axis around 1. The page has the values next
 * to the drawing. */
typedef struct chart_forest {
    double reach; /* the axis covers [1 / reach, reach]; above 1 */
    double band;  /* ratios in [1 / band, band] are negligible; 1: none */
} chart_forest_t;

/* A reach that shows most of n ratios or ends of intervals, at most 4. Sorts them. */
double chart_forest_reach(double *ratios, int n, double band);
void chart_forest_axis(FILE *out, const chart_forest_t *forest);
/* Draws a row. Intervals beyond the axis end in an arrow. kind: class of the colour: "same", "better", "worse",
 * "inconclusive". */
void chart_forest_row(FILE *out, const chart_forest_t *forest, chart_value_t ratio, const char *kind);

#endif
