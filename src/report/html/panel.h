/* SPDX-License-Identifier: MIT */
/* Shared by the sections of the page (page.h); used by src/report/html alone. */
#ifndef REPORT_HTML_PANEL_H
#define REPORT_HTML_PANEL_H

#include "report/chart/chart.h"
#include "report/html/page.h"
#include "report/records/metrics.h"
#include "report/records/render.h"
#include "report/records/report.h"

enum { HTML_NOW, HTML_BASE, HTML_SIDES };

/* A measurement of dptrain bench on both sides, over all starts. */
typedef struct html_item {
    const metric_t *side[HTML_SIDES]; /* NULL: not measured on that side */
    report_fields_t key;
    const char *case_name, *test;
    const compare_metric_t *compared; /* NULL: not compared */
    bool shown;                       /* a panel shows it */
} html_item_t;

/* A training run with something to show, of either side. */
typedef struct html_run {
    const report_train_t *train;
    const char *name; /* short and unique: its folder, numbered if repeated, after "base: " on that side */
    const char *end;  /* "": no end record */
    bool is_base;
    double epoch_steps; /* of a whole epoch; NAN: unknown */
} html_run_t;

/* A figure of the page: a curve, or a table of values with intervals, which is drawn as bars, as parts of totals,
 * or as lines over x, and follows as folded data. */
typedef struct html_panel {
    const char *title, *caption; /* caption: which direction is better, and the source */
    chart_lines_t lines;         /* no series: the table's own drawing */
    chart_table_t table;         /* no rows: a curve alone */
    const char *row_heading;     /* of the folded data */
    struct html_panel *next;
} html_panel_t;

typedef struct html {
    const html_input_t *in;
    const report_t *sides[HTML_SIDES]; /* base NULL: none */
    FILE *out;
    err_t status;  /* of html_format */
    arena_t arena; /* freed after the page */
    intern_t words;
    metrics_t metrics[HTML_SIDES];
    html_item_t *items; /* in the order of now, then those of base alone */
    html_run_t *runs;
    int n_items, n_runs;
    bool
        only_trains; /* all are training runs: their results come first, the machine last and folded; html_runs_make */
    html_panel_t *panels, *last; /* not printed yet */
    int n_panels;
} html_t;

/* Text that lives as long as the page. Without memory: "", and the page fails. */
const char *html_format(html_t *h, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* "a" and "b" are "a, b"; "" and "b" are "b". */
const char *html_join(html_t *h, const char *a, const char *b);

/* Writes markup, as chart_put: whatever records say stays text. */
#define html_put(h, ...) chart_put((h)->out, __VA_ARGS__)
#define HTML_NOTE        "<p class=\"note\">%s</p>\n"
#define HTML_CAPTION     "<p class=\"caption\">%s</p>\n"

/* A table: begin, rows, end. */
void html_table_begin(html_t *h, const table_column_t *columns, int n);
void html_row(html_t *h, const table_column_t *columns, int n, const char *const *cells); /* NULL: empty */
void html_table_end(html_t *h);
void html_table(html_t *h, const table_t *table);

/* Adds a copy of the panel, then prints those added, side by side if there is room. What panels point to lives
 * in the arena. */
err_t html_panel_add(html_t *h, const html_panel_t *panel);
void html_panels_print(html_t *h);

/* Labels of axes and figures. */
figure_t html_label_percent(double fraction);
figure_t html_label_figure(double value); /* three significant digits */

err_t html_items_make(html_t *h);
err_t html_runs_make(html_t *h);
enum { HTML_MAX_RUNS = 8 };                 /* that are drawn, and shown in detail */
const char *html_training_title(html_t *h); /* only_trains: "lenet5 on mnist" */
void html_warnings(html_t *h);              /* about the quality of the data */

/* Median, minimum and maximum of a figure over the starts of a metric. metric NULL: no value; name NULL: the
 * time. */
err_t html_value(html_t *h, const metric_t *metric, const char *name, chart_value_t *out);
double html_field_number(report_fields_t fields, const char *name); /* NAN: missing */
/* The time of an item: the comparison's, or the median over the starts; NAN: not measured on that side. */
err_t html_seconds(html_t *h, const html_item_t *item, int side, double *out);

/* Identifies a metric; key as ";bytes=8;ranks=2;". */
typedef struct html_name {
    const char *case_name, *test, *key;
} html_name_t;

/* "comm all_reduce: 8 KiB, in place": without the parts of the key that all of the test share. A test named like
 * its case is not repeated. */
const char *html_metric_name(html_t *h, const html_name_t *all, int n, const html_name_t *of);

/* Selects items that no panel shows yet for tables of a figure, and assigns each to a table, row and series by
 * its key fields or "test". Fields that are not named but vary make further series (rest_is_series) or further
 * tables. */
typedef struct html_spec {
    const char *case_name, *figure;
    const char *table[4], *row[5], *series[3], *ignore[4]; /* NULL-terminated */
    const char *needs;                                     /* required key field; NULL: none */
    const char *x;                                         /* key field with the row's number; NULL: none */
    /* Figures for the ends. NULL: the figure is a rate, work per median time, so the comparison's time gives its
     * value, and the ends are the minimum and maximum of the starts. */
    const char *low, *high;
    bool rest_is_series;
    int min_rows; /* tables with fewer rows are dropped, their items not marked as shown */
} html_spec_t;

typedef struct html_values {
    const char *name; /* distinguishes it from others of the same spec */
    chart_table_t table;
    int *style;   /* [n_series]; the same name has the same style in all tables of a spec */
    int n_starts; /* maximum over the values of now */
    struct html_values *next;
} html_values_t;

/* Builds the tables of a spec. Rows and series are in the order of the items; rows with an x are sorted by
 * it. Marks the items as shown. *out NULL: no item fits. */
err_t html_values(html_t *h, const html_spec_t *spec, html_values_t **out);

/* One line: what was run, and when. */
const char *html_summary(html_t *h);

/* Sections. One that writes nothing is not on the page. */
err_t html_head(html_t *h);
err_t html_verdicts(html_t *h);
err_t html_comm(html_t *h);
err_t html_speed(html_t *h);
err_t html_steps(html_t *h);
err_t html_training(html_t *h);
err_t html_job(html_t *h);
err_t html_results(html_t *h);
err_t html_history(html_t *h);
err_t html_rest(html_t *h); /* items that no panel shows */

extern const char *const html_css[]; /* NULL-terminated */

#endif
