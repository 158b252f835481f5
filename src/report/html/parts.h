/* SPDX-License-Identifier: MIT */
/* What the sections of the page (page.h) share; for src/report/html alone. */
#ifndef REPORT_HTML_PARTS_H
#define REPORT_HTML_PARTS_H

#include "report/chart/chart.h"
#include "report/html/page.h"
#include "report/records/metrics.h"
#include "report/records/render.h"

enum { HTML_NOW, HTML_BASE, HTML_SIDES };

/* A measurement over the starts of both sides. */
typedef struct html_item {
    const metric_t *side[HTML_SIDES]; /* NULL: that side has none */
    report_fields_t key;
    const char *case_name, *test;
    bool shown; /* by a chart */
} html_item_t;

typedef struct html {
    const html_input_t *in;
    FILE *out;
    arena_t arena; /* for the whole page */
    intern_t words;
    metrics_t metrics[HTML_SIDES];
    html_item_t *items; /* of dptrain bench: in now's order, then what base alone has */
    int n_items;
} html_t;

err_t html_items_make(html_t *h);

/* Whether there is a point of a case with that figure. */
bool html_has_figure(const html_t *h, const char *case_name, const char *figure);

/* NAN: none of it. n: starts. */
typedef struct html_value {
    double middle, low, high;
    int n;
} html_value_t;

/* Median, least and greatest over the starts of a figure of the records' metrics. NULL: no starts. */
err_t html_value(html_t *h, const metric_t *metric, const char *name, html_value_t *out);
double html_field_number(report_fields_t fields, const char *name); /* NAN: none */

/* What a field of a key says, without its name where that is clear: "8 KiB", "in place", "2 ranks", "batch
 * 64". */
err_t html_field_words(html_t *h, const report_field_t *field, const char **out);

/* The same of a key's text, "bytes=8;ranks=2", without what all of some keys share. */
err_t html_key_words(html_t *h, const char *key, const char *const *keys, int n_keys, const char **out);

/* "comm all_reduce: 8 KiB, in place"; a test with its case's name is said once. words: html_key_words'. */
err_t html_metric_name(html_t *h, const char *case_name, const char *test, const char *words,
                       const char **out);

/* Which items a table of figures is of, and where each stands in it: by fields of its key, or "test". Fields
 * that are named nowhere and differ make further series (rest_is_series) or further tables. */
typedef struct html_spec {
    const char *case_name, *figure;
    const char *table[4], *row[5], *series[3], *ignore[4]; /* NULL-terminated */
    const char *needs;                                     /* a field that it has to have; NULL: none */
    const char *x;                                         /* field that is a row's number; NULL: none */
    const char *low, *high; /* figures that are an interval's ends; NULL: least and greatest of the starts */
    bool rest_is_series;
    int min_rows; /* tables of fewer rows are left out, and their items not shown */
} html_spec_t;

typedef struct html_matrix html_matrix_t;
struct html_matrix {
    const char *name; /* what tells it from the others of its spec */
    const char **rows, **series;
    double *x;  /* [n_rows] */
    int *style; /* [n_series]: the same for the same name in all of a spec's */
    int n_rows, n_series;
    html_value_t *at[HTML_SIDES]; /* [n_rows, n_series]; of base NULL where there is none */
    int n_starts;                 /* most of now's, else of base's */
    html_matrix_t *next;
};

/* Rows and series in the order of the items, rows with an x by it. *out: NULL where no item fits. Its items
 * count as shown. */
err_t html_matrices(html_t *h, const html_spec_t *spec, html_matrix_t **out);

/* A matrix' columns as lines over x, base's behind now's; and what to say of them. */
err_t html_matrix_series(html_t *h, const html_matrix_t *m, chart_series_t *series, int *n, int *n_left_out);
err_t html_starts_text(html_t *h, const html_matrix_t *m, const char *ends, const char **out);

/* The page's parts. Texts are escaped. */
void html_text(html_t *h, const char *text);
void html_section(html_t *h, const char *id, const char *heading, const char *lead); /* lead may be NULL */
void html_section_end(html_t *h);
void html_figures(html_t *h); /* a group of figures, side by side where there is room */
void html_figures_end(html_t *h);
void html_figure(html_t *h, const char *title);
/* caption: what is better, where it is from; then the data folded away, where table is not NULL. */
void html_figure_end(html_t *h, const char *caption, const table_t *table);
void html_table(html_t *h, const table_t *table);
void html_folded(html_t *h, const char *summary, const table_t *table);
void html_note(html_t *h, const char *text);
/* Cells with what the chart shows: rows × series, of base too. figure: of a value. */
err_t html_matrix_table(html_t *h, const html_matrix_t *matrix, const char *row_heading,
                        chart_text_t (*figure)(double), table_t *out);

/* Labels of axes. */
chart_text_t html_label_size(double n_bytes);
chart_text_t html_label_percent(double fraction);
chart_text_t html_label_figure(double value); /* three digits that count */

/* Sections: whether there is data for one, and it. */
bool html_has_verdicts(const html_t *h);
bool html_has_comm(const html_t *h);
bool html_has_speed(const html_t *h);
bool html_has_steps(const html_t *h);
bool html_has_training(const html_t *h);
bool html_has_history(const html_t *h);
err_t html_summary(html_t *h, const char **out); /* a line about what was run, and when */
err_t html_head(html_t *h);
err_t html_verdicts(html_t *h);
err_t html_comm(html_t *h);
err_t html_speed(html_t *h);
err_t html_steps(html_t *h);
err_t html_training(html_t *h);
err_t html_history(html_t *h);
err_t html_rest(html_t *h); /* what no chart has shown */
bool html_has_rest(const html_t *h);

/* A short name of a training run: its folder. In the order of the report; unique. */
err_t html_train_name(html_t *h, const report_t *report, const report_run_t *run, const char **out);

extern const char *const html_css[]; /* NULL-terminated */

#endif
