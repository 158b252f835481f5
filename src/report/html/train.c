/* SPDX-License-Identifier: MIT */
/* The section on training runs: loss and accuracy curves, and a table of the runs. */
#include <math.h>
#include <string.h>

#include "base/figure.h"
#include "report/html/parts.h"

enum { MAX_RUNS = 8 }; /* per chart, so that colours stay distinct */

typedef struct trained {
    const report_run_t *run;
    const char *name; /* "base: …" of base */
    bool is_base;
} trained_t;

static bool has_epochs(const report_run_t *run)
{
    return run->train && run->train->epochs;
}

static bool is_shown(const report_run_t *run)
{
    return run->train && (run->train->curve.n > 0 || run->train->curve.n_invalid > 0 || has_epochs(run));
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

static err_t list_runs(html_t *h, trained_t **out, int *n)
{
    const report_t *const sides[] = {h->in->now, h->in->base};
    int n_most = 0;
    *n = 0;
    for (int side = 0; side < HTML_SIDES; side++)
        for (const report_run_t *run = sides[side] ? sides[side]->runs : NULL; run; run = run->next) n_most++;
    TRY(arena_new(&h->arena, sizeof **out * (size_t)(n_most + 1), out));
    for (int side = 0; side < HTML_SIDES; side++)
        for (const report_run_t *run = sides[side] ? sides[side]->runs : NULL; run; run = run->next) {
            trained_t *at = *out + *n;
            if (!is_shown(run)) continue;
            *at = (trained_t){.run = run, .is_base = side == HTML_BASE};
            TRY(html_train_name(h, sides[side], run, &at->name));
            if (at->is_base) TRY(arena_format(&h->arena, &at->name, "base: %s", at->name));
            ++*n;
        }
    return ERR_OK;
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

typedef enum epoch_figure { TRAIN_LOSS, VAL_LOSS, TRAIN_ACCURACY, VAL_ACCURACY } epoch_figure_t;

static double figure_of_epoch(const report_epoch_t *epoch, epoch_figure_t figure)
{
    const double values[] = {epoch->train_loss, epoch->val_loss, epoch->train_accuracy, epoch->val_accuracy};
    return values[figure];
}

/* n is 0 if no value is finite. */
static err_t epoch_series(html_t *h, const trained_t *of, epoch_figure_t figure, int style,
                          chart_series_t *out)
{
    const report_train_t *train = of->run->train;
    double *columns[4];
    int n = 0;
    for (const report_epoch_t *epoch = train->epochs; epoch; epoch = epoch->next) n++;
    TRY(new_series(h, n, out, columns));
    out->n = 0;
    for (const report_epoch_t *epoch = train->epochs; epoch; epoch = epoch->next) {
        double value = figure_of_epoch(epoch, figure);
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
        if (at->n == 0) TRY(epoch_series(h, &runs[i], TRAIN_LOSS, i, at));
        n_series += at->n > 0;
        bool drawn = at->n > 0;
        at = &series[n_series];
        TRY(epoch_series(h, &runs[i], VAL_LOSS, i, at));
        at->markers = at->no_line = true;
        if (drawn) at->name = NULL;
        validated |= at->n > 0;
        n_series += at->n > 0;
    }
    if (n_series == 0) return ERR_OK;
    bool logarithmic = spans_decades(series, n_series);
    const chart_lines_t chart = {
        .about = "Training loss of each run over its steps.",
        .x = {.title = "step"},
        .y = {.title = "loss", .scale = logarithmic ? CHART_LOG : CHART_LINEAR, .from_zero = !logarithmic},
        .series = series,
        .n_series = n_series,
        .reference = NAN,
        .height = 210};
    TRY(arena_format(
        &h->arena, &caption,
        "Lower is better. The steps are cut into up to %d intervals. Line: median of an interval; band: its "
        "minimum and maximum%s. Source: loss of the step records of dptrain train%s.",
        CURVE_MAX, validated ? "; markers: validation" : "", logarithmic ? "; logarithmic axis" : ""));
    TRY(rest_text(h, n, &caption));
    html_figure(h, "Loss");
    html_lines(h, &chart);
    html_figure_end(h, caption, NULL);
    return ERR_OK;
}

static err_t draw_accuracies(html_t *h, const trained_t *runs, int n)
{
    chart_series_t series[2 * MAX_RUNS];
    int n_series = 0;
    const char *caption = "Higher is better. With markers: validation; without: training, mean of the "
                          "epoch. Source: epoch records of dptrain train. The axis does not start at 0.";
    for (int i = 0; i < n && i < MAX_RUNS; i++) {
        chart_series_t *at = &series[n_series];
        TRY(epoch_series(h, &runs[i], VAL_ACCURACY, i, at));
        at->markers = true;
        n_series += at->n > 0;
        at = &series[n_series];
        TRY(epoch_series(h, &runs[i], TRAIN_ACCURACY, i, at));
        at->name = n_series > 0 && series[n_series - 1].style == i ? NULL : runs[i].name;
        if (at->n > 1) n_series++;
    }
    /* The table shows single values. */
    int n_most = 0;
    for (int s = 0; s < n_series; s++) n_most = series[s].n > n_most ? series[s].n : n_most;
    if (n_most < 2) return ERR_OK;
    const chart_lines_t chart = {.about = "Accuracy of each run over its steps.",
                                 .x = {.title = "step"},
                                 .y = {.title = "accuracy", .label = html_label_percent},
                                 .series = series,
                                 .n_series = n_series,
                                 .reference = NAN,
                                 .height = 210};
    TRY(rest_text(h, n, &caption));
    html_figure(h, "Accuracy");
    html_lines(h, &chart);
    html_figure_end(h, caption, NULL);
    return ERR_OK;
}

static err_t put_figure(html_t *h, figure_t figure, const char **cell)
{
    return arena_format(&h->arena, cell, "%s", figure.text);
}

static err_t fill_row(html_t *h, const trained_t *of, const char **cell)
{
    const report_train_t *train = of->run->train;
    double best = NAN;
    for (const report_epoch_t *epoch = train->epochs; epoch; epoch = epoch->next)
        best = fmax(best, epoch->val_accuracy);
    *cell++ = of->name;
    *cell++ = train->model ? train->model : "";
    TRY(arena_format(&h->arena, cell++, "%s, %s", train->precision ? train->precision : "-",
                     train->device ? train->device : "-"));
    TRY(put_figure(h, figure_number(train->ranks), cell++));
    TRY(put_figure(h, figure_number(train->global_batch), cell++));
    TRY(arena_format(&h->arena, cell++, "%s of %s", figure_number(train->last_step + 1).text,
                     figure_number(train->n_steps).text));
    TRY(put_figure(h, figure_number(report_images_per_sec(train)), cell++));
    TRY(put_figure(h, figure_number(train->last_loss), cell++));
    TRY(put_figure(h, figure_percent(best), cell++));
    *cell = of->run->end_reason && of->run->end_reason[0] ? of->run->end_reason : "no end record";
    if (train->curve.n_invalid > 0)
        TRY(arena_format(&h->arena, cell, "%s; steps without a finite loss: %lld", *cell,
                         (long long)train->curve.n_invalid));
    return ERR_OK;
}

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
                                 {"best val accuracy", false},
                                 {"end", true}},
                     .n_columns = 10,
                     .n_rows = n};
    TRY(arena_new(&h->arena, sizeof *table.cells * (size_t)n * 10, &table.cells));
    for (int i = 0; i < n; i++) TRY(fill_row(h, &runs[i], table.cells + (ptrdiff_t)i * 10));
    html_table(h, &table);
    return ERR_OK;
}

typedef struct training_figures {
    const trained_t *runs;
    int n;
} training_figures_t;

static err_t draw_training(html_t *h, const void *context)
{
    const training_figures_t *figures = context;
    TRY(draw_losses(h, figures->runs, figures->n));
    return draw_accuracies(h, figures->runs, figures->n);
}

err_t html_training(html_t *h)
{
    trained_t *runs;
    int n;
    TRY(list_runs(h, &runs, &n));
    html_section(h, "training", "Training runs", NULL);
    TRY(html_figures(h, draw_training, &(training_figures_t){runs, n}));
    TRY(print_runs(h, runs, n));
    html_section_end(h);
    return ERR_OK;
}
