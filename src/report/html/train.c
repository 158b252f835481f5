/* SPDX-License-Identifier: MIT */
/* The section on training runs: curves of their metrics, and a table of the runs. */
#include <ctype.h>
#include <math.h>
#include <string.h>

#include "base/figure.h"
#include "report/html/parts.h"
#include "report/records/print.h"

enum { MAX_RUNS = 8 }; /* per chart, so that colours stay distinct */

typedef struct trained {
    const report_run_t *run;
    const char *name; /* "base: …" of base */
    bool is_base;
} trained_t;

static bool is_shown(const report_run_t *run)
{
    const report_train_t *train = run->train;
    return train && (train->curve.n > 0 || train->curve.n_invalid > 0 || train->epochs);
}

bool html_has_training(const html_t *h)
{
    const report_t *const sides[] = {h->in->now, h->in->base};
    for (int side = 0; side < HTML_SIDES; side++)
        for (const report_run_t *run = sides[side] ? sides[side]->runs : NULL; run; run = run->next)
            if (is_shown(run)) return true;
    return false;
}

/* The folder of a metrics.jsonl, otherwise the file without its ending. */
static err_t file_name(html_t *h, const char *path, const char **out)
{
    const char *end = strrchr(path, '/'), *start;
    if (end && strcmp(end + 1, "metrics.jsonl") == 0 && end > path) {
        for (start = end; start > path && start[-1] != '/'; start--) {}
    } else {
        start = end ? end + 1 : path;
        end = path + strlen(path);
        if (end - start > 6 && strcmp(end - 6, ".jsonl") == 0) end -= 6;
    }
    return arena_text(&h->arena, start, (size_t)(end - start), out);
}

err_t html_train_name(html_t *h, const report_t *report, const report_run_t *run, const char **out)
{
    int n_before = 0;
    TRY(file_name(h, report->files[run->file].name, out));
    for (const report_run_t *other = report->runs; other != run; other = other->next) {
        const char *name;
        if (!other->train) continue;
        TRY(file_name(h, report->files[other->file].name, &name));
        n_before += strcmp(name, *out) == 0;
    }
    return n_before > 0 ? arena_format(&h->arena, out, "%s (%d)", *out, n_before + 1) : ERR_OK;
}

/* A series of n values with x, y, low and high. */
static err_t new_series(html_t *h, int n, chart_series_t *out, double *columns[4])
{
    for (int c = 0; c < 4; c++) TRY(arena_new(&h->arena, sizeof(double) * (size_t)(n + 1), &columns[c]));
    *out = (chart_series_t){.x = columns[0], .y = columns[1], .low = columns[2], .high = columns[3], .n = n};
    return ERR_OK;
}

static err_t curve_series(html_t *h, const trained_t *of, int style, chart_series_t *out)
{
    const curve_t *curve = &of->run->train->curve;
    double *columns[4];
    bool is_cut = false; /* some interval has more than one step */
    TRY(new_series(h, curve->n, out, columns));
    for (int i = 0; i < curve->n; i++) {
        columns[0][i] = curve->at[i].step;
        columns[1][i] = curve->at[i].median;
        columns[2][i] = curve->at[i].low;
        columns[3][i] = curve->at[i].high;
        is_cut |= curve->at[i].high > curve->at[i].low;
    }
    if (!is_cut) out->low = out->high = NULL;
    out->name = of->name;
    out->style = style;
    out->band = true;
    out->is_base = of->is_base;
    return ERR_OK;
}

/* The index of a metric of that name in tables; -1: the run has none. */
static int metric_of(const report_train_t *train, const char *name)
{
    for (int i = 0; i < train->n_metrics; i++)
        if (strcmp(train->metrics[i].name, name) == 0 && (train->metrics[i].val || train->metrics[i].train))
            return i;
    return -1;
}

/* The metric of that name at the ends of epochs: of validation (val) or training. n is 0 if no value is
 * finite. */
static err_t epoch_series(html_t *h, const trained_t *of, const char *name, bool val, int style,
                          chart_series_t *out)
{
    const report_train_t *train = of->run->train;
    int n = 0, metric = metric_of(train, name);
    double *columns[4];
    for (const report_epoch_t *epoch = train->epochs; epoch; epoch = epoch->next) n++;
    TRY(new_series(h, n, out, columns));
    out->n = 0;
    for (const report_epoch_t *epoch = train->epochs; epoch; epoch = epoch->next) {
        double value = metric < 0 ? NAN : val ? epoch->val[metric] : epoch->train[metric];
        if (!isfinite(value)) continue;
        columns[0][out->n] = isfinite(epoch->step) ? epoch->step : (double)epoch->epoch;
        columns[1][out->n++] = value;
    }
    out->low = out->high = NULL;
    out->name = of->name;
    out->style = style;
    out->is_base = of->is_base;
    return ERR_OK;
}

static bool spans_decades(const chart_series_t *series, int n)
{
    double low = INFINITY, high = 0;
    for (int s = 0; s < n; s++)
        for (int i = 0; i < series[s].n; i++) {
            low = fmin(low, series[s].low ? series[s].low[i] : series[s].y[i]);
            high = fmax(high, series[s].y[i]);
        }
    return low > 0 && high > 10 * low;
}

static err_t rest_text(html_t *h, int n, const char **caption)
{
    if (n <= MAX_RUNS) return ERR_OK;
    return arena_format(&h->arena, caption, "%s %d more runs in the table.", *caption, n - MAX_RUNS);
}

static err_t draw_losses(html_t *h, const trained_t *runs, int n)
{
    chart_series_t series[2 * MAX_RUNS];
    const char *caption;
    int n_series = 0;
    bool validated = false;
    for (int i = 0; i < n && i < MAX_RUNS; i++) {
        chart_series_t *at = &series[n_series];
        TRY(curve_series(h, &runs[i], i, at));
        /* Without step records, the means of the epochs. */
        if (at->n == 0) TRY(epoch_series(h, &runs[i], "loss", false, i, at));
        n_series += at->n > 0;
        bool drawn = at->n > 0;
        at = &series[n_series];
        TRY(epoch_series(h, &runs[i], "loss", true, i, at));
        at->markers = at->no_line = true;
        if (drawn) at->name = NULL;
        validated |= at->n > 0;
        n_series += at->n > 0;
    }
    if (n_series == 0) return ERR_OK;
    bool logarithmic = spans_decades(series, n_series);
    /* Where a single run was resumed, the last times. */
    const report_train_t *train = runs[0].run->train;
    chart_mark_t marks[REPORT_MAX_RESUMED];
    int n_marks = 0, n_known = train->n_resumed < REPORT_MAX_RESUMED ? train->n_resumed : REPORT_MAX_RESUMED;
    for (int i = 0; i < n_known && n == 1; i++)
        if (train->resumed_at[i] >= 0)
            marks[n_marks++] = (chart_mark_t){train->resumed_at[i], n_known > 4 ? "" : "resumed"};
    const chart_lines_t chart = {
        .about = "Training loss of each run over its steps.",
        .x = {.title = "step"},
        .y = {.title = "loss", .scale = logarithmic ? CHART_LOG : CHART_LINEAR, .from_zero = !logarithmic},
        .series = series,
        .n_series = n_series,
        .marks = marks,
        .n_marks = n_marks,
        .reference = NAN,
        .height = 210};
    TRY(arena_format(
        &h->arena, &caption,
        "Lower is better. The steps are cut into up to %d intervals. Line: median of an interval; band: its "
        "minimum and maximum%s%s. Source: loss of the step records of dptrain train%s.",
        CURVE_MAX, validated ? "; markers: validation" : "",
        n_marks > 0 ? "; vertical lines: where the run was resumed" : "",
        logarithmic ? "; logarithmic axis" : ""));
    TRY(rest_text(h, n, &caption));
    html_figure(h, "Loss");
    html_lines(h, &chart);
    html_figure_end(h, caption, NULL);
    return ERR_OK;
}

static err_t draw_metric(html_t *h, const trained_t *runs, int n, const report_metric_t *metric)
{
    chart_series_t series[2 * MAX_RUNS];
    int n_series = 0;
    const char *caption, *title, *about;
    TRY(arena_format(&h->arena, &caption,
                     "%sWith markers: validation; without: training, mean of the "
                     "epoch. Source: epoch records of dptrain train. The axis does not start at 0.",
                     metric->is_neutral         ? ""
                     : metric->higher_is_better ? "Higher is better. "
                                                : "Lower is better. "));
    /* "Accuracy", "mAP", "Top-5" */
    const char *label = metric->label;
    bool is_word = islower((unsigned char)label[0]) && !isupper((unsigned char)label[1]);
    TRY(arena_format(&h->arena, &title, "%c%s", is_word ? toupper((unsigned char)label[0]) : label[0],
                     label + 1));
    TRY(arena_format(&h->arena, &about, "%s of each run over its steps.", title));
    for (int i = 0; i < n && i < MAX_RUNS; i++) {
        chart_series_t *at = &series[n_series];
        TRY(epoch_series(h, &runs[i], metric->name, true, i, at));
        at->markers = true;
        n_series += at->n > 0;
        at = &series[n_series];
        TRY(epoch_series(h, &runs[i], metric->name, false, i, at));
        at->name = n_series > 0 && series[n_series - 1].style == i ? NULL : runs[i].name;
        if (at->n > 1) n_series++;
    }
    /* The table shows single values. */
    int n_most = 0;
    for (int s = 0; s < n_series; s++) n_most = series[s].n > n_most ? series[s].n : n_most;
    if (n_most < 2) return ERR_OK;
    const chart_lines_t chart = {
        .about = about,
        .x = {.title = "step"},
        .y = {.title = metric->label, .label = metric->is_fraction ? html_label_percent : NULL},
        .series = series,
        .n_series = n_series,
        .reference = NAN,
        .height = 210};
    TRY(rest_text(h, n, &caption));
    html_figure(h, title);
    html_lines(h, &chart);
    html_figure_end(h, caption, NULL);
    return ERR_OK;
}

static err_t put_figure(html_t *h, figure_t figure, const char **cell)
{
    return arena_format(&h->arena, cell, "%s", figure.text);
}

static const report_metric_t *main_metric(const trained_t *of)
{
    const report_train_t *train = of->run->train;
    return &train->metrics[train->main_metric];
}

/* The label of the main metric if all runs have the same; otherwise NULL. */
static const char *common_label(const trained_t *runs, int n)
{
    for (int i = 1; i < n; i++)
        if (strcmp(main_metric(&runs[i])->label, main_metric(&runs[0])->label) != 0) return NULL;
    return n > 0 ? main_metric(&runs[0])->label : NULL;
}

/* The table of the runs, then the stragglers of each run that has some. */
static err_t print_runs(html_t *h, const trained_t *runs, int n)
{
    table_t table = {.columns = {{"run", true},
                                 {"model", true},
                                 {"precision, device", true},
                                 {"ranks", false},
                                 {"batch", false},
                                 {"steps", false},
                                 {"images/s", false},
                                 {"last loss", false},
                                 {"best validation", false},
                                 {"end", true}},
                     .n_columns = 10,
                     .n_rows = n};
    enum { BEST = 8 };
    const char *label = common_label(runs, n);
    if (label) TRY(arena_format(&h->arena, &table.columns[BEST].heading, "best val %s", label));
    TRY(arena_new(&h->arena, sizeof *table.cells * (size_t)n * 10, &table.cells));
    const char **cell = table.cells;
    for (int i = 0; i < n; i++, cell++) {
        const report_train_t *train = runs[i].run->train;
        const report_metric_t *metric = main_metric(&runs[i]);
        const char *end = runs[i].run->end_reason;
        double best = report_best(train, train->main_metric);
        *cell++ = runs[i].name;
        *cell++ = train->model;
        TRY(arena_format(&h->arena, cell++, "%s, %s", train->precision[0] ? train->precision : "-",
                         train->device[0] ? train->device : "-"));
        TRY(put_figure(h, figure_number(train->ranks), cell++));
        TRY(put_figure(h, figure_number(train->global_batch), cell++));
        TRY(arena_format(&h->arena, cell++, "%s of %s", figure_number(train->last_step + 1).text,
                         figure_number(train->n_steps).text));
        const report_rates_t rates = report_rates(train);
        TRY(put_figure(h, figure_throughput(rates.mean, rates.median, ""), cell++));
        TRY(put_figure(h, figure_number(train->last_loss), cell++));
        TRY(arena_format(&h->arena, cell++, "%s%s%s", label ? "" : metric->label, label ? "" : " ",
                         report_metric_figure(metric, best).text));
        *cell = end[0] ? end : "no end record";
        if (train->replicas_differ)
            TRY(arena_format(&h->arena, cell, "%s; replicas %s", *cell, train->replicas));
        if (train->curve.n_invalid > 0)
            TRY(arena_format(&h->arena, cell, "%s; steps without a finite loss: %lld", *cell,
                             (long long)train->curve.n_invalid));
    }
    html_table(h, &table);
    for (int i = 0; i < n; i++) {
        const char *note;
        TRY(train_stragglers(&h->arena, runs[i].run->train, &table));
        if (table.n_rows == 0) continue;
        TRY(arena_format(&h->arena, &note, "Stragglers of %s: %s.", runs[i].name, table.caption));
        html_note(h, note);
        html_table(h, &table);
    }
    return ERR_OK;
}

typedef struct training_figures {
    const trained_t *runs;
    int n;
} training_figures_t;

static err_t draw_training(html_t *h, const void *context)
{
    const training_figures_t *figures = context;
    const trained_t *runs = figures->runs;
    int n = figures->n;
    TRY(draw_losses(h, runs, n));
    /* A figure for each metric that one of the runs has, except the loss. */
    for (int i = 0; i < n; i++) {
        const report_train_t *train = runs[i].run->train;
        for (int m = 0; m < train->n_metrics; m++) {
            const char *name = train->metrics[m].name;
            bool drawn = strcmp(name, "loss") == 0 || metric_of(train, name) < 0;
            for (int k = 0; k < i && !drawn; k++) drawn = metric_of(runs[k].run->train, name) >= 0;
            if (!drawn) TRY(draw_metric(h, runs, n, &train->metrics[m]));
        }
    }
    return ERR_OK;
}

err_t html_training(html_t *h)
{
    const report_t *const sides[] = {h->in->now, h->in->base};
    trained_t *runs;
    int n_most = 0, n = 0;
    for (int side = 0; side < HTML_SIDES; side++)
        for (const report_run_t *run = sides[side] ? sides[side]->runs : NULL; run; run = run->next) n_most++;
    TRY(arena_new(&h->arena, sizeof *runs * (size_t)(n_most + 1), &runs));
    for (int side = 0; side < HTML_SIDES; side++)
        for (const report_run_t *run = sides[side] ? sides[side]->runs : NULL; run; run = run->next) {
            trained_t *at = runs + n;
            if (!is_shown(run)) continue;
            *at = (trained_t){.run = run, .is_base = side == HTML_BASE};
            TRY(html_train_name(h, sides[side], run, &at->name));
            if (at->is_base) TRY(arena_format(&h->arena, &at->name, "base: %s", at->name));
            n++;
        }
    html_section(h, "training", "Training runs", NULL);
    TRY(html_figures(h, draw_training, &(training_figures_t){runs, n}));
    TRY(print_runs(h, runs, n));
    html_section_end(h);
    return ERR_OK;
}
