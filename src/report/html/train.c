/* SPDX-License-Identifier: MIT */
/* The section on training runs: curves of their metrics, and a table of the runs. */
#include <ctype.h>
#include <math.h>
#include <string.h>

#include "report/html/panel.h"
#include "report/records/print.h"

enum { MAX_RUNS = 8 }; /* per chart, so that colours stay distinct */

/* The folder of a metrics.jsonl, otherwise the file without its ending. */
static const char *file_name(html_t *h, const char *path)
{
    const char *end = strrchr(path, '/'), *start;
    if (end && strcmp(end + 1, "metrics.jsonl") == 0 && end > path) {
        for (start = end; start > path && start[-1] != '/'; start--) {}
    } else {
        start = end ? end + 1 : path;
        end = path + strlen(path);
        if (end - start > 6 && strcmp(end - 6, ".jsonl") == 0) end -= 6;
    }
    return html_format(h, "%.*s", (int)(end - start), start);
}

err_t html_runs_make(html_t *h)
{
    int n_most = 0;
    for (int side = 0; side < HTML_SIDES && h->sides[side]; side++)
        for (const report_run_t *run = h->sides[side]->runs; run; run = run->next) n_most++;
    TRY(arena_new(&h->arena, sizeof *h->runs * (size_t)(n_most + 1), &h->runs));
    for (int side = 0; side < HTML_SIDES && h->sides[side]; side++) {
        const report_t *report = h->sides[side];
        for (const report_run_t *run = report->runs; run; run = run->next) {
            const report_train_t *train = run->train;
            int n = 1;
            if (!train || !(train->curve.n > 0 || train->curve.n_invalid > 0 || train->epochs)) continue;
            const char *name = file_name(h, report->files[run->file].name);
            for (const report_run_t *other = report->runs; other != run; other = other->next)
                n += other->train && strcmp(file_name(h, report->files[other->file].name), name) == 0;
            if (n > 1) name = html_format(h, "%s (%d)", name, n);
            if (side == HTML_BASE) name = html_format(h, "base: %s", name);
            h->runs[h->n_runs++] = (html_run_t){train, name, run->end_reason, side == HTML_BASE};
        }
    }
    return ERR_OK;
}

/* The losses of the step records, or without them the means of the epochs. */
static err_t curve_series(html_t *h, const html_run_t *of, int style, chart_series_t *out)
{
    const curve_t *curve = &of->train->curve;
    chart_value_t *at;
    TRY(arena_new(&h->arena, sizeof *at * (size_t)(curve->n + 1), &at));
    *out = (chart_series_t){
        .name = of->name, .style = style, .n = curve->n, .at = at, .band = true, .is_base = of->is_base};
    for (int i = 0; i < curve->n; i++)
        at[i] = (chart_value_t){
            curve->at[i].step, curve->at[i].median, curve->at[i].low, curve->at[i].high, 0, false};
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
static err_t epoch_series(html_t *h, const html_run_t *of, const char *name, bool val, int style,
                          chart_series_t *out)
{
    const report_train_t *train = of->train;
    int n = 0, metric = metric_of(train, name);
    chart_value_t *at;
    for (const report_epoch_t *epoch = train->epochs; epoch; epoch = epoch->next) n++;
    TRY(arena_new(&h->arena, sizeof *at * (size_t)(n + 1), &at));
    *out = (chart_series_t){.name = of->name, .style = style, .at = at, .is_base = of->is_base};
    for (const report_epoch_t *epoch = train->epochs; epoch; epoch = epoch->next) {
        double value = metric < 0 ? NAN : val ? epoch->val[metric] : epoch->train[metric];
        double step = isfinite(epoch->step) ? epoch->step : (double)epoch->epoch;
        if (isfinite(value)) at[out->n++] = chart_point(step, value);
    }
    return ERR_OK;
}

static bool spans_decades(const chart_series_t *series, int n)
{
    double low = INFINITY, high = 0;
    for (int s = 0; s < n; s++)
        for (int i = 0; i < series[s].n; i++) {
            const chart_value_t *at = &series[s].at[i];
            low = fmin(low, isnan(at->low) ? at->y : at->low);
            high = fmax(high, at->y);
        }
    return low > 0 && high > 10 * low;
}

static const char *rest_text(html_t *h, int n)
{
    return n > MAX_RUNS ? html_format(h, " %d more runs in the table.", n - MAX_RUNS) : "";
}

static err_t add_losses(html_t *h, const html_run_t *runs, int n)
{
    chart_series_t *series;
    chart_mark_t *marks;
    int n_series = 0, n_marks = 0;
    bool validated = false;
    TRY(arena_new(&h->arena, sizeof *series * 2 * MAX_RUNS, &series));
    TRY(arena_new(&h->arena, sizeof *marks * REPORT_MAX_RESUMED, &marks));
    for (int i = 0; i < n && i < MAX_RUNS; i++) {
        chart_series_t *at = &series[n_series];
        TRY(curve_series(h, &runs[i], i, at));
        if (at->n == 0) TRY(epoch_series(h, &runs[i], "loss", false, i, at));
        bool drawn = at->n > 0;
        n_series += drawn;
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
    const report_train_t *train = runs[0].train;
    int n_known = train->n_resumed < REPORT_MAX_RESUMED ? train->n_resumed : REPORT_MAX_RESUMED;
    for (int i = 0; i < n_known && n == 1; i++)
        if (train->resumed_at[i] >= 0)
            marks[n_marks++] = (chart_mark_t){train->resumed_at[i], n_known > 4 ? "" : "resumed"};
    return html_panel_add(
        h,
        &(html_panel_t){
            .title = "Loss",
            .caption = html_format(
                h,
                "Lower is better. The steps are cut into up to %d intervals. Line: median of an interval; band: its "
                "minimum and maximum%s%s. Source: loss of the step records of dptrain train%s.%s",
                CURVE_MAX, validated ? "; markers: validation" : "",
                n_marks > 0 ? "; vertical lines: where the run was resumed" : "",
                logarithmic ? "; logarithmic axis" : "", rest_text(h, n)),
            .lines = {.about = "Training loss of each run over its steps.",
                      .x = {.title = "step"},
                      .y = {.title = "loss",
                            .scale = logarithmic ? CHART_LOG : CHART_LINEAR,
                            .from_zero = !logarithmic},
                      .series = series,
                      .n_series = n_series,
                      .marks = marks,
                      .n_marks = n_marks,
                      .reference = NAN,
                      .height = 210}});
}

static err_t add_metric(html_t *h, const html_run_t *runs, int n, const report_metric_t *metric)
{
    chart_series_t *series;
    int n_series = 0, n_most = 0;
    TRY(arena_new(&h->arena, sizeof *series * 2 * MAX_RUNS, &series));
    for (int i = 0; i < n && i < MAX_RUNS; i++) {
        chart_series_t *at = &series[n_series];
        TRY(epoch_series(h, &runs[i], metric->name, true, i, at));
        at->markers = true;
        n_series += at->n > 0;
        at = &series[n_series];
        TRY(epoch_series(h, &runs[i], metric->name, false, i, at));
        if (n_series > 0 && series[n_series - 1].style == i) at->name = NULL;
        if (at->n > 1) n_series++;
    }
    /* The table shows single values. */
    for (int s = 0; s < n_series; s++) n_most = series[s].n > n_most ? series[s].n : n_most;
    if (n_most < 2) return ERR_OK;
    /* "Accuracy", "mAP", "Top-5" */
    const char *label = metric->label;
    bool is_word = islower((unsigned char)label[0]) && !isupper((unsigned char)label[1]);
    const char *title =
        html_format(h, "%c%s", is_word ? toupper((unsigned char)label[0]) : label[0], label + 1);
    return html_panel_add(
        h, &(html_panel_t){
               .title = title,
               .caption =
                   html_format(h,
                               "%sWith markers: validation; without: training, mean of the epoch. Source: "
                               "epoch records of dptrain train. The axis does not start at 0.%s",
                               metric->is_neutral         ? ""
                               : metric->higher_is_better ? "Higher is better. "
                                                          : "Lower is better. ",
                               rest_text(h, n)),
               .lines = {.about = html_format(h, "%s of each run over its steps.", title),
                         .x = {.title = "step"},
                         .y = {.title = label, .label = metric->is_fraction ? html_label_percent : NULL},
                         .series = series,
                         .n_series = n_series,
                         .reference = NAN,
                         .height = 210}});
}

static const report_metric_t *main_metric(const html_run_t *of)
{
    return &of->train->metrics[of->train->main_metric];
}

/* The table of the runs, then the stragglers of each run that has some. */
static err_t print_runs(html_t *h, const html_run_t *runs, int n)
{
    enum { COLUMNS = 10, BEST = 8 };
    table_column_t columns[COLUMNS] = {{"run", .is_text = true},
                                       {"model", .is_text = true},
                                       {"precision, device", .is_text = true},
                                       {"ranks", .is_text = false},
                                       {"batch", .is_text = false},
                                       {"steps", .is_text = false},
                                       {"images/s", .is_text = false},
                                       {"last loss", .is_text = false},
                                       {"best validation", .is_text = false},
                                       {"end", .is_text = true}};
    /* The label of the main metric, if all runs have the same. */
    const char *label = main_metric(&runs[0])->label;
    for (int i = 1; i < n && label; i++)
        if (strcmp(main_metric(&runs[i])->label, label) != 0) label = NULL;
    if (label) columns[BEST].heading = html_format(h, "best val %s", label);
    html_table_begin(h, columns, COLUMNS);
    for (int i = 0; i < n; i++) {
        const report_train_t *train = runs[i].train;
        const report_metric_t *metric = main_metric(&runs[i]);
        const report_rates_t rates = report_rates(train);
        const char *end = runs[i].end[0] ? runs[i].end : "no end record";
        if (train->replicas_differ) end = html_format(h, "%s; replicas %s", end, train->replicas);
        if (train->curve.n_invalid > 0)
            end = html_format(h, "%s; steps without a finite loss: %lld", end,
                              (long long)train->curve.n_invalid);
        html_row(h, columns, COLUMNS,
                 (const char *const[]){
                     runs[i].name, train->model,
                     html_format(h, "%s, %s", train->precision[0] ? train->precision : "-",
                                 train->device[0] ? train->device : "-"),
                     html_format(h, "%s", figure_number(train->ranks).text),
                     html_format(h, "%s", figure_number(train->global_batch).text),
                     html_format(h, "%s of %s", figure_number(train->last_step + 1).text,
                                 figure_number(train->n_steps).text),
                     html_format(h, "%s", figure_throughput(rates.mean, rates.median, "").text),
                     html_format(h, "%s", figure_number(train->last_loss).text),
                     html_format(h, "%s%s%s", label ? "" : metric->label, label ? "" : " ",
                                 report_metric_figure(metric, report_best(train, train->main_metric)).text),
                     end});
    }
    html_table_end(h);
    for (int i = 0; i < n; i++) {
        table_t table;
        TRY(train_stragglers(&h->arena, runs[i].train, &table));
        if (table.n_rows == 0) continue;
        html_put(h, "<p class=\"note\">Stragglers of %s: %s.</p>\n", runs[i].name, table.caption);
        html_table(h, &table);
    }
    return ERR_OK;
}

err_t html_training(html_t *h)
{
    const html_run_t *runs = h->runs;
    const int n = h->n_runs;
    if (n == 0) return ERR_OK;
    TRY(add_losses(h, runs, n));
    /* A panel for each metric that one of the runs has, except the loss. */
    for (int i = 0; i < n; i++)
        for (int m = 0; m < runs[i].train->n_metrics; m++) {
            const char *name = runs[i].train->metrics[m].name;
            bool drawn = strcmp(name, "loss") == 0 || metric_of(runs[i].train, name) < 0;
            for (int k = 0; k < i && !drawn; k++) drawn = metric_of(runs[k].train, name) >= 0;
            if (!drawn) TRY(add_metric(h, runs, n, &runs[i].train->metrics[m]));
        }
    html_panels_print(h);
    return print_runs(h, runs, n);
}
