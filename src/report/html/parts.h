/* SPDX-License-Identifier: MIT */
/* Shared by the sections of the page (page.h); used by src/report/html alone. */
#ifndef REPORT_HTML_PARTS_H
#define REPORT_HTML_PARTS_H

#include "report/chart/chart.h"
#include "report/html/page.h"
#include "report/records/metrics.h"
#include "report/records/render.h"

enum { HTML_NOW, HTML_BASE, HTML_SIDES };

/* A measurement on both sides, over all starts. */
typedef struct html_item {
    const metric_t *side[HTML_SIDES]; /* NULL: not measured on that side */
    report_fields_t key;
    const char *case_name, *test;
    const compare_metric_t *compared; /* NULL: not compared */
    bool shown;                       /* a chart shows it */
} html_item_t;

typedef struct html {
    const html_input_t *in;
    FILE *out;
    arena_t arena; /* freed after the page */
    intern_t words;
    metrics_t metrics[HTML_SIDES];
    html_item_t *items; /* of dptrain bench: in the order of now, then those of base alone */
    int n_items;
    int n_figures, wide; /* of the group being drawn: figures so far; width of its wide charts, 0: none */
} html_t;

err_t html_items_make(html_t *h);

/* Whether a point of the case has the figure. */
bool html_has_figure(const html_t *h, const char *case_name, const char *figure);

/* NAN: no value. n: number of starts. disturbed: other load disturbed at least half of them. */
typedef struct html_value {
    double middle, low, high;
    int n;
    bool disturbed;
} html_value_t;

/* Median, minimum and maximum of a figure over the starts of a metric. metric NULL: no value. */
err_t html_value(html_t *h, const metric_t *metric, const char *name, html_value_t *out);
double html_field_number(report_fields_t fields, const char *name); /* NAN: missing */
/* The time of an item: the comparison's, or the median over the starts; NAN: not measured on that side. */
err_t html_seconds(html_t *h, const html_item_t *item, int side, double *out);

/* A key field in words, without its name if that is clear: "8 KiB", "in place", "2 ranks", "batch 64". */
err_t html_field_words(html_t *h, const report_field_t *field, const char **out);

/* A key's text, "bytes=8;ranks=2", in words, without the parts that all of `keys` share. */
err_t html_key_words(html_t *h, const char *key, const char *const *keys, int n_keys, const char **out);

/* "comm all_reduce: 8 KiB, in place". words: from html_key_words. A test named like its case is not repeated.
 */
err_t html_metric_name(html_t *h, const char *case_name, const char *test, const char *words,
                       const char **out);

/* Selects items for tables of a figure and assigns each to a table, row and series by its key fields or
 * "test". Fields that are not named but vary make further series (rest_is_series) or further tables. */
typedef struct html_spec {
    const char *case_name, *figure;
    const char *table[4], *row[5], *series[3], *ignore[4]; /* NULL-terminated */
    const char *needs;                                     /* required key field; NULL: none */
    const char *x;                                         /* key field with the row's number; NULL: none */
    const char *low, *high; /* figures for the ends; NULL: minimum and maximum of the starts */
    bool rest_is_series;
    bool is_rate; /* work per median time, so the comparison's time gives a value */
    bool is_rest; /* only items that no chart shows yet */
    int min_rows; /* tables with fewer rows are dropped, their items not marked as shown */
} html_spec_t;

/* The value of an item. Without low: over the starts; of a rate on a single start the 95 % interval. */
err_t html_spec_value(html_t *h, const html_spec_t *spec, const html_item_t *item, int side,
                      html_value_t *out);

typedef struct html_matrix html_matrix_t;
struct html_matrix {
    const char *name; /* distinguishes it from others of the same spec */
    const char **rows, **series;
    double *x;  /* [n_rows] */
    int *style; /* [n_series]; the same name has the same style in all tables of a spec */
    int n_rows, n_series;
    html_value_t *at[HTML_SIDES]; /* [n_rows, n_series]; base NULL: no base */
    int n_starts;                 /* maximum over the values of now */
    html_matrix_t *next;
};

/* Builds the tables of a spec. Rows and series are in the order of the items; rows with an x are sorted by
 * it. Marks the items as shown. *out NULL: no item fits. */
err_t html_matrices(html_t *h, const html_spec_t *spec, html_matrix_t **out);

/* The series of a matrix as lines over x. At most CHART_MAX_SERIES; the rest is counted in *n_left_out. */
err_t html_matrix_series(html_t *h, const html_matrix_t *m, chart_series_t *series, int *n, int *n_left_out);

/* Elements of the page. Texts are escaped. */
void html_text(html_t *h, const char *text);
void html_section(html_t *h, const char *id, const char *heading, const char *lead); /* lead may be NULL */
void html_section_end(html_t *h);
/* A group of figures, side by side if there is room. draw may be called twice; it draws the same each time. */
typedef err_t (*html_draw_t)(html_t *h, const void *context);
err_t html_figures(html_t *h, html_draw_t draw, const void *context);
void html_lines(html_t *h, const chart_lines_t *chart);
void html_bars(html_t *h, const chart_bars_t *chart);
void html_stack(html_t *h, const chart_stack_t *chart);
void html_figure(html_t *h, const char *title);
/* caption: which direction is better, and the source. table: the folded data; NULL: none. */
void html_figure_end(html_t *h, const char *caption, const table_t *table);
void html_table(html_t *h, const table_t *table);
void html_folded(html_t *h, const char *summary, const table_t *table);
void html_note(html_t *h, const char *text);
/* The matrix as a table of rows × series, including base. figure formats a value. */
err_t html_matrix_table(html_t *h, const html_matrix_t *matrix, const char *row_heading,
                        chart_text_t (*figure)(double), table_t *out);

/* Labels of axes. */
chart_text_t html_label_size(double n_bytes);
chart_text_t html_label_percent(double fraction);
chart_text_t html_label_figure(double value); /* three significant digits */

/* Sections: whether there is data, and printing. */
bool html_has_verdicts(const html_t *h);
bool html_has_comm(const html_t *h);
bool html_has_speed(const html_t *h);
bool html_has_steps(const html_t *h);
bool html_has_training(const html_t *h);
bool html_has_job(const html_t *h);
bool html_has_results(const html_t *h);
bool html_has_history(const html_t *h);
err_t html_summary(html_t *h, const char **out); /* one line: what was run, and when */
err_t html_head(html_t *h);
err_t html_verdicts(html_t *h);
err_t html_comm(html_t *h);
err_t html_speed(html_t *h);
err_t html_steps(html_t *h);
err_t html_training(html_t *h);
err_t html_job(html_t *h);
err_t html_results(html_t *h);
err_t html_history(html_t *h);
err_t html_rest(html_t *h); /* items that no chart shows */
bool html_has_rest(const html_t *h);

/* A short, unique name of a training run: its folder, numbered if repeated. */
err_t html_train_name(html_t *h, const report_t *report, const report_run_t *run, const char **out);

extern const char *const html_css[]; /* NULL-terminated */

#endif
