/* SPDX-License-Identifier: MIT */
/* Charts as SVG for an HTML page. A chart is CHART_WIDTH units wide and as tall as it needs: at about one
 * unit a pixel it reads on a phone, and several stand side by side on a laptop. It has no title of its own:
 * that, and what is said below it, are the page's. Colours are variables of the page's style (chart_css), so
 * that one drawing serves light, dark and print; what differs in colour differs in a marker, a dash or a
 * place too.
 *
 * Texts may hold anything: they are escaped, cut where there is no room, and the whole is then in a tooltip.
 * Values that are no finite number, and on a logarithmic axis those not above 0, are not drawn. The same
 * input gives the same bytes. Everything writes to `out` and leaves looking for its errors to the caller. Not
 * collective. */
#ifndef REPORT_CHART_CHART_H
#define REPORT_CHART_CHART_H

#include <stdbool.h>
#include <stdio.h>

enum { CHART_WIDTH = 360, CHART_COLOURS = 8, CHART_MAX_SERIES = 16, CHART_MAX_TICKS = 12 };

/* For a <style>: the colours in both modes as --c0 … (lines and bars), --q0 … (parts of a whole), and the
 * classes of all that is drawn. */
extern const char chart_css[];

/* Text of a page or an attribute: markup, quotes and what steers the direction of writing are made harmless.
 */
void chart_escape(FILE *out, const char *text);

typedef enum chart_scale {
    CHART_LINEAR,
    CHART_LOG,
    CHART_LOG2
} chart_scale_t; /* LOG2: ticks at powers of two */

typedef struct chart_text {
    char text[32];
} chart_text_t;

typedef struct chart_axis {
    const char *title; /* with the unit, as "busbw, GB/s" */
    chart_scale_t scale;
    bool from_zero;                      /* LINEAR: 0 is on the axis */
    double at_least;                     /* LINEAR: and this; 0: nothing more */
    chart_text_t (*label)(double value); /* of a tick; NULL: chart_label */
} chart_axis_t;

/* "0.25", "10k", "1.5M", "2e-07". */
chart_text_t chart_label(double value);

/* Round values for an axis from low to high, which are finite, low ≤ high (above 0 where logarithmic): at
 * most n_most (from 3, up to CHART_MAX_TICKS), at least one, ascending, within [low, high] where the scale
 * has such values, into `out`. Returns how many. */
int chart_ticks(chart_scale_t scale, double low, double high, int n_most, double *out);

/* style: of the colour, marker and dash; its own for each name, and the same for what is the same on two
 * charts. */
typedef struct chart_series {
    const char *name; /* in the legend; NULL: not in it */
    int style, n;
    const double *x, *y;
    const double *low, *high; /* [n]; NULL: none */
    bool band;                /* low and high as a band behind the line; else as a whisker at each value */
    bool markers;             /* at the values; without them dashes tell lines apart */
    bool no_line;
    bool is_base; /* what is compared against: thin, dashed, hollow */
} chart_series_t;

/* A vertical line with a word. */
typedef struct chart_mark {
    double x;
    const char *label;
} chart_mark_t;

typedef struct chart_lines {
    const char *about; /* for who cannot see it: what it shows, in a sentence */
    chart_axis_t x, y;
    const chart_series_t *series;
    int n_series; /* at most CHART_MAX_SERIES */
    const chart_mark_t *marks;
    int n_marks;
    double reference;  /* a horizontal line, as 1 for ideal scaling; NAN: none */
    int height;        /* of the plot; 0: as usual */
    bool side_by_side; /* values with the same x stand beside each other: where x are few whole numbers */
} chart_lines_t;

void chart_lines_draw(FILE *out, const chart_lines_t *chart);

/* Horizontal bars from 0, in groups: a row has a bar for each series. */
typedef struct chart_bars {
    const char *about;
    chart_axis_t axis;                    /* LINEAR */
    chart_text_t (*figure)(double value); /* behind a bar; NULL: chart_label */
    const char *const *rows;              /* [n_rows] */
    const char *const *series;            /* [n_series]; one: no legend */
    int n_rows, n_series;                 /* n_series at most CHART_COLOURS */
    const double *values;                 /* [n_rows, n_series]; NAN: no bar */
    const double *base;                   /* the same, as a tick on the bar; NULL: none */
    const char *const *base_names; /* of the legend: what the bars are, what the ticks; NULL: without base */
} chart_bars_t;

void chart_bars_draw(FILE *out, const chart_bars_t *chart);

/* Each row a whole, cut into parts. */
typedef struct chart_stack {
    const char *about;
    const char *const *rows, *const *notes; /* [n_rows]; a note stands at the right end */
    const char *const *parts;               /* [n_parts] */
    int n_rows, n_parts;                    /* n_parts at most CHART_COLOURS */
    const double *shares; /* [n_rows, n_parts], fractions of 1; what is missing stays empty */
} chart_stack_t;

void chart_stack_draw(FILE *out, const chart_stack_t *chart);

/* Ratios with intervals, a drawing a row, all on the same logarithmic axis around 1. */
typedef struct chart_forest {
    double reach; /* the axis is from 1 / reach to reach, above 1 */
    double band;  /* ratios from 1 / band to band do not matter; 1: all do */
} chart_forest_t;

/* A reach that shows most of n ratios, as ends of intervals, which are sorted here; at most 4. */
double chart_forest_reach(double *ratios, int n, double band);
void chart_forest_axis(FILE *out, const chart_forest_t *forest);
/* about: NULL where the page says the same beside it, as it does what the axis is. kind: a class for the
 * colour, "same", "better", "worse", "inconclusive". An interval that leaves the axis ends in an arrow. */
void chart_forest_row(FILE *out, const chart_forest_t *forest, double ratio, double low, double high,
                      const char *kind, const char *about);

#endif
