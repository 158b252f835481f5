/* SPDX-License-Identifier: MIT */
/* The section on training runs: a line of results for each, curves of what they measured, confusions; folded below: epochs,
 * layers and ranks. */
#include <ctype.h>
#include <math.h>
#include <string.h>

#include "report/html/panel.h"
#include "report/records/print.h"

/* MAX_RUNS: per chart, so that colours stay distinct. */
enum { MAX_RUNS = HTML_MAX_RUNS, CURVE_HEIGHT = 210, MAX_PARTS = CHART_COLOURS - 2 };
enum { STYLE_NONE = -1, STYLE_TRAINING, STYLE_VALIDATION }; /* of one run; NONE: in legends */

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

/* Steps of a whole epoch: the most between the ends of two that follow each other, as one may have been cut short; of a
 * single one from the number of images. NAN: unknown. */
static double steps_per_epoch(const report_train_t *train)
{
    double most = 0, step = 0, number = -1;
    for (const report_epoch_t *at = train->epochs; at; at = at->next) {
        const bool follows = (double)at->epoch - number < 1.5;
        if (follows && train->epochs->next) most = fmax(most, at->step - step);
        step = at->step;
        number = (double)at->epoch;
    }
    return most > 0 ? most : ceil(train->n_train / train->global_batch);
}

err_t html_runs_make(html_t *h)
{
    int n_most = 0;
    bool any_other = false;
    for (int side = 0; side < HTML_SIDES && h->sides[side]; side++)
        for (const report_run_t *run = h->sides[side]->runs; run; run = run->next, n_most++)
            any_other = any_other || !run->train;
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
            h->runs[h->n_runs++] =
                (html_run_t){train, name, run->end_reason, side == HTML_BASE, steps_per_epoch(train)};
        }
    }
    h->only_trains = h->n_runs > 0 && !any_other;
    return ERR_OK;
}

const char *html_training_title(html_t *h)
{
    const report_train_t *first = h->runs[0].train;
    const report_field_t *option = fields_find(first->options, "data");
    const char *path = option && option->kind == FIELD_TEXT ? option->text : first->data,
               *slash = strrchr(path, '/');
    const char *data = slash && slash[1] ? slash + 1 : path;
    bool same = first->model[0] != '\0';
    for (int i = 1; i < h->n_runs; i++)
        same = same && strcmp(h->runs[i].train->model, first->model) == 0 &&
               strcmp(h->runs[i].train->data, first->data) == 0;
    if (!same) return html_format(h, "%d training run%s", h->n_runs, h->n_runs > 1 ? "s" : "");
    const char *title = html_format(h, "%s%s%s", first->model, data[0] ? " on " : "", data);
    return h->n_runs > 1 ? html_format(h, "%s: %d runs", title, h->n_runs) : title;
}

/* Epochs, which runs of different lengths and batches share, or steps, where there is at most one. */
static bool shows_epochs(const html_run_t *runs, int n)
{
    double most = 0;
    for (int i = 0; i < n; i++) {
        if (!(runs[i].epoch_steps > 0)) return false;
        most = fmax(most, (runs[i].train->last_step + 1) / runs[i].epoch_steps);
    }
    return most > 1;
}

typedef struct view {
    html_t *h;
    const html_run_t *runs; /* those that are drawn */
    int n, n_all;
    bool one; /* a single run: colours tell what is measured, otherwise whose it is */
    bool by_epoch;
} view_t;

static double place_of(const view_t *v, const html_run_t *of, double step)
{
    return v->by_epoch ? step / of->epoch_steps : step;
}

static chart_axis_t axis_of(const view_t *v)
{
    return (chart_axis_t){.title = v->by_epoch ? "epoch" : "step"};
}

/* The index of a metric of that name in tables; -1: the run has none. */
static int metric_of(const report_train_t *train, const char *name)
{
    for (int i = 0; i < train->n_metrics; i++)
        if (strcmp(train->metrics[i].name, name) == 0 && (train->metrics[i].val || train->metrics[i].train))
            return i;
    return -1;
}

static int count_epochs(const report_epoch_t *epoch)
{
    int n = 0;
    for (; epoch; epoch = epoch->next) n++;
    return n;
}

/* The curve of a run, a value for each interval.
 *
 *   batch  0: as recorded; else samples of a step whose time was, for a rate
 *   band   with minimum and maximum */
static err_t curve_series(const view_t *v, const html_run_t *of, const curve_t *curve, double batch,
                          bool band, chart_series_t *out)
{
    chart_value_t *at;
    TRY(arena_new(&v->h->arena, sizeof *at * (size_t)(curve->n + 1), &at));
    *out = (chart_series_t){.n = curve->n, .at = at, .band = band, .is_base = of->is_base, .plain = true};
    for (int i = 0; i < curve->n; i++) {
        const curve_point_t *c = &curve->at[i];
        const double x = place_of(v, of, c->step + 1);
        at[i] = chart_point(x, batch > 0 ? batch / c->median : c->median);
        if (!band) continue;
        at[i].low = c->low;
        at[i].high = c->high;
    }
    return ERR_OK;
}

/* A metric of training at the ends of epochs, or of all evaluations, also those inside of epochs, by step. n is 0 if no
 * value is finite. */
static err_t epoch_series(const view_t *v, const html_run_t *of, int metric, bool val, chart_series_t *out)
{
    const report_train_t *train = of->train;
    const report_epoch_t *epoch = train->epochs, *between = val ? train->between : NULL;
    chart_value_t *at;
    TRY(arena_new(&v->h->arena, sizeof *at * (size_t)(count_epochs(epoch) + count_epochs(between) + 1), &at));
    *out = (chart_series_t){.at = at, .is_base = of->is_base, .plain = true, .markers = val, .dashed = val};
    while (metric >= 0 && (epoch || between)) {
        const bool inside = between && (!epoch || between->step < epoch->step);
        const report_epoch_t *next = inside ? between : epoch;
        const double value = val ? next->val[metric] : next->train[metric];
        const double step = isfinite(next->step) ? next->step : (double)next->epoch;
        if (isfinite(value)) at[out->n++] = chart_point(place_of(v, of, step), value);
        if (inside)
            between = between->next;
        else
            epoch = epoch->next;
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

/* "Accuracy", "mAP", "Top-5" */
static const char *title_of(html_t *h, const char *label)
{
    const bool is_word = islower((unsigned char)label[0]) && !isupper((unsigned char)label[1]);
    return html_format(h, "%c%s", is_word ? toupper((unsigned char)label[0]) : label[0], label + 1);
}

/* Series of a panel while it is made. */
typedef struct sheet {
    const view_t *v;
    chart_series_t at[CHART_MAX_SERIES];
    int n;
    bool trained, validated; /* what there is of it */
} sheet_t;

/* Adds a series of run i, unless it is empty. name: what is measured, in the legend of a single run. */
static void add_series(sheet_t *s, chart_series_t series, int i, int style, const char *name,
                       const char *about)
{
    const view_t *v = s->v;
    const char *run = v->runs[i].name;
    bool named = false;
    if (series.n == 0 || s->n == CHART_MAX_SERIES) return;
    s->trained = s->trained || !series.markers;
    s->validated = s->validated || series.markers;
    for (int k = 0; k < s->n && !v->one; k++) named = named || s->at[k].style == i;
    series.style = v->one ? style : i;
    series.name = v->one ? name : named ? NULL : run;
    series.about = v->one ? name : html_format(v->h, "%s, %s", run, about);
    s->at[s->n++] = series;
}

/* With several runs the legend tells what is dashed. */
static void add_keys(sheet_t *s)
{
    if (s->v->one || !s->validated || !s->trained || s->n + 2 > CHART_MAX_SERIES) return;
    s->at[s->n++] = (chart_series_t){.name = "training", .style = STYLE_NONE, .plain = true};
    s->at[s->n++] = (chart_series_t){
        .name = "validation", .style = STYLE_NONE, .plain = true, .markers = true, .dashed = true};
}

static err_t add_panel(sheet_t *s, const char *title, const html_panel_t *panel)
{
    html_panel_t copy = *panel;
    chart_series_t *series;
    if (s->n == 0) return ERR_OK;
    if (s->n == 1 && s->v->one && !s->validated) s->at[0].name = NULL; /* about stays */
    add_keys(s);
    TRY(arena_new(&s->v->h->arena, sizeof *series * (size_t)s->n, &series));
    memcpy(series, s->at, sizeof *series * (size_t)s->n);
    copy.title = title;
    copy.lines.about = html_format(s->v->h, "%s of %s.", title, s->v->one ? "the run" : "each run");
    copy.lines.x = axis_of(s->v);
    copy.lines.series = series;
    copy.lines.n_series = s->n;
    copy.lines.reference = NAN;
    copy.lines.height = CURVE_HEIGHT;
    copy.lines.values = true;
    return html_panel_add(s->v->h, &copy);
}

static bool is_part_of_loss(const report_metric_t *metric)
{
    return metric->train && !metric->is_fraction && !metric->is_neutral && !metric->higher_is_better &&
           !metric->is_detail && strcmp(metric->name, "loss") != 0;
}

/* The largest loss to draw, far above where runs began and what they reached: one that diverged hides the others. */
static double largest_loss(const sheet_t *s)
{
    enum { FAR = 20 };
    double usual = 0, most = 0;
    for (int i = 0; i < s->n; i++) {
        double least = INFINITY;
        for (int k = 0; k < s->at[i].n; k++) {
            least = fmin(least, s->at[i].at[k].y);
            most = fmax(most, s->at[i].at[k].y);
        }
        usual = fmax(usual, fmax(least, s->at[i].markers ? least : s->at[i].at[0].y));
    }
    return usual > 0 && most > FAR * usual ? FAR * usual : 0;
}

/* Training by steps, or without their records by epochs; validation; of a single detector also the parts of its loss. */
static err_t add_losses(const view_t *v)
{
    sheet_t s = {.v = v};
    chart_series_t series;
    chart_mark_t *marks;
    int n_marks = 0;
    for (int i = 0; i < v->n; i++) {
        const report_train_t *train = v->runs[i].train;
        const int loss = metric_of(train, "loss");
        TRY(curve_series(v, &v->runs[i], &train->curve, 0, v->n <= 2, &series));
        if (series.n == 0) TRY(epoch_series(v, &v->runs[i], loss, false, &series));
        add_series(&s, series, i, STYLE_TRAINING, "training", "training");
        TRY(epoch_series(v, &v->runs[i], loss, true, &series));
        add_series(&s, series, i, STYLE_VALIDATION, "validation", "validation");
        for (int m = 0, part = 0; m < train->n_metrics && v->one && part < MAX_PARTS; m++) {
            if (!is_part_of_loss(&train->metrics[m])) continue;
            TRY(epoch_series(v, &v->runs[i], m, false, &series));
            add_series(&s, series, i, 1 + ++part, train->metrics[m].label, NULL);
        }
    }
    /* Where a single run was resumed, the last times. */
    const report_train_t *train = v->runs[0].train;
    const int n_known = train->n_resumed < REPORT_MAX_RESUMED ? train->n_resumed : REPORT_MAX_RESUMED;
    TRY(arena_new(&v->h->arena, sizeof *marks * REPORT_MAX_RESUMED, &marks));
    for (int i = 0; i < n_known && v->one; i++)
        if (train->resumed_at[i] >= 0)
            marks[n_marks++] =
                (chart_mark_t){place_of(v, &v->runs[0], train->resumed_at[i]), n_known > 4 ? "" : "resumed"};
    const bool logarithmic = spans_decades(s.at, s.n);
    const double at_most = largest_loss(&s);
    const char *cut = at_most > 0 ? html_format(v->h, ", cut at %s", figure_number(at_most).text) : "";
    return add_panel(
        &s, "Loss",
        &(html_panel_t){
            .lines = {.y = {.title = html_format(v->h, "loss%s%s", logarithmic ? ", logarithmic" : "", cut),
                            .scale = logarithmic ? CHART_LOG : CHART_LINEAR,
                            .from_zero = !logarithmic,
                            .at_most = at_most},
                      .marks = marks,
                      .n_marks = n_marks}});
}

/* Fractions of which more is better. The main metric's kind is what evaluations measure; the others, of training alone. */
static bool is_of_kind(const report_metric_t *metric, bool main_kind)
{
    return metric->is_fraction && metric->higher_is_better && !metric->is_detail &&
           metric->val == main_kind && (metric->val || metric->train);
}

/* Adds a metric of all runs to a sheet, if they have it. label: of a single run with several; NULL: it is the only one.
 *
 *   n_most  receives the most values of a series */
static err_t add_metric(sheet_t *s, const char *name, const char *label, int style, int *n_most)
{
    const view_t *v = s->v;
    chart_series_t series;
    for (int i = 0; i < v->n; i++) {
        const int metric = metric_of(v->runs[i].train, name);
        TRY(epoch_series(v, &v->runs[i], metric, false, &series));
        *n_most = series.n > *n_most ? series.n : *n_most;
        if (series.n > 1)
            add_series(s, series, i, label ? style : STYLE_TRAINING,
                       label ? html_format(v->h, "training %s", label) : "training", "training");
        TRY(epoch_series(v, &v->runs[i], metric, true, &series));
        *n_most = series.n > *n_most ? series.n : *n_most;
        add_series(s, series, i, label ? style : STYLE_VALIDATION, label ? label : "validation",
                   "validation");
    }
    return ERR_OK;
}

/* The line above the charts has single values. */
static err_t add_fraction_panel(sheet_t *s, const char *title, int n_most)
{
    if (n_most < 2) return ERR_OK;
    return add_panel(s, title, &(html_panel_t){.lines = {.y = {.title = "", .label = html_label_percent}}});
}

/* Of a single run all metrics of a kind in a panel. */
static err_t add_fractions(const view_t *v, bool main_kind)
{
    const report_train_t *train = v->runs[0].train;
    sheet_t s = {.v = v};
    const report_metric_t *first = NULL;
    int n_most = 0, n_kind = 0, style = 0;
    for (int m = 0; m < train->n_metrics; m++) n_kind += is_of_kind(&train->metrics[m], main_kind);
    for (int m = 0; m < train->n_metrics; m++) {
        const report_metric_t *metric = &train->metrics[m];
        if (!is_of_kind(metric, main_kind)) continue;
        if (!first || m == train->main_metric) first = metric;
        TRY(add_metric(&s, metric->name, n_kind > 1 ? metric->label : NULL, style++, &n_most));
    }
    if (!first) return ERR_OK;
    const bool precisions = n_kind > 1 && strstr(first->label, "AP");
    return add_fraction_panel(&s, precisions ? "Average precision" : title_of(v->h, first->label), n_most);
}

/* Of several runs a panel for each metric of evaluations that one of them has. */
static err_t add_fractions_of_runs(const view_t *v)
{
    for (int i = 0; i < v->n; i++)
        for (int m = 0; m < v->runs[i].train->n_metrics; m++) {
            const report_metric_t *metric = &v->runs[i].train->metrics[m];
            sheet_t s = {.v = v};
            int n_most = 0;
            bool drawn = !is_of_kind(metric, true);
            for (int k = 0; k < i && !drawn; k++) drawn = metric_of(v->runs[k].train, metric->name) >= 0;
            if (drawn) continue;
            TRY(add_metric(&s, metric->name, NULL, 0, &n_most));
            TRY(add_fraction_panel(&s, title_of(v->h, metric->label), n_most));
        }
    return ERR_OK;
}

/* Rates of whole epochs. */
static err_t rate_series(const view_t *v, const html_run_t *of, chart_series_t *out)
{
    chart_value_t *at;
    TRY(arena_new(&v->h->arena, sizeof *at * (size_t)(count_epochs(of->train->epochs) + 1), &at));
    *out = (chart_series_t){.at = at, .is_base = of->is_base, .plain = true};
    for (const report_epoch_t *epoch = of->train->epochs; epoch; epoch = epoch->next)
        if (isfinite(epoch->step))
            at[out->n++] = chart_point(place_of(v, of, epoch->step), epoch->images_per_sec);
    return ERR_OK;
}

/* Learning rates, and rates of images. */
static err_t add_rates(const view_t *v)
{
    sheet_t learning = {.v = v}, images = {.v = v};
    chart_series_t series;
    for (int i = 0; i < v->n; i++) {
        const report_train_t *train = v->runs[i].train;
        TRY(curve_series(v, &v->runs[i], &train->rates, 0, false, &series));
        add_series(&learning, series, i, STYLE_TRAINING, "learning rate", "learning rate");
        if (!(train->global_batch > 0)) continue;
        TRY(curve_series(v, &v->runs[i], &train->secs, train->global_batch, false, &series));
        /* Without several steps to an interval, an epoch's smaller last batch would look fast. */
        if (train->last_step < 3 * CURVE_MAX && count_epochs(train->epochs) > 1)
            TRY(rate_series(v, &v->runs[i], &series));
        add_series(&images, series, i, STYLE_TRAINING, "images/s", "images/s");
    }
    TRY(add_panel(&learning, "Learning rate",
                  &(html_panel_t){.lines = {.y = {.title = "", .from_zero = true}}}));
    return add_panel(&images, "Throughput",
                     &(html_panel_t){.lines = {.y = {.title = "images/s", .from_zero = true}}});
}

static const report_metric_t *main_metric(const html_run_t *of)
{
    return &of->train->metrics[of->train->main_metric];
}

static const report_epoch_t *best_of(const report_train_t *train)
{
    return report_best(train, train->main_metric);
}

static const char *result_text(html_t *h, const html_run_t *of)
{
    const report_metric_t *metric = main_metric(of);
    const report_epoch_t *best = best_of(of->train);
    if (!best) return html_format(h, "loss %s", figure_number(of->train->last_loss).text);
    return html_format(h, "%s", report_metric_figure(metric, best->val[of->train->main_metric]).text);
}

static const char *result_note(html_t *h, const html_run_t *of)
{
    const report_train_t *train = of->train;
    const report_epoch_t *best = best_of(train);
    if (!best) return "the last, in training; no validation";
    const double epoch = best->step / of->epoch_steps;
    const char *at = isfinite(epoch) ? html_format(h, "epoch %s", figure_number(round(10 * epoch) / 10).text)
                                     : html_format(h, "step %s", figure_number(best->step).text);
    return html_format(h, "%s %s, %s",
                       train->n_val > 0 || isnan(train->n_val) ? "validation" : "training images'",
                       main_metric(of)->label, at);
}

/* Of the recorded epochs and evaluations, and of the steps after the last epoch. */
static const char *time_text(html_t *h, const report_train_t *train)
{
    double sec = 0, step = 0;
    for (const report_epoch_t *at = train->epochs; at; at = at->next) {
        sec += (isfinite(at->train_sec) ? at->train_sec : 0) + (isfinite(at->eval_sec) ? at->eval_sec : 0);
        if (isfinite(at->train_sec) && isfinite(at->step)) step = at->step;
    }
    for (const report_epoch_t *at = train->between; at; at = at->next)
        sec += isfinite(at->eval_sec) ? at->eval_sec : 0;
    const double rest = train->mean_step_sec * (train->last_step + 1 - step);
    return html_format(h, "%s", figure_time(rest > 0 ? sec + rest : sec).text);
}

static const char *length_text(html_t *h, const html_run_t *run)
{
    const report_train_t *train = run->train;
    const double steps = train->last_step + 1, per_epoch = run->epoch_steps;
    const char *of =
        steps < train->n_steps ? html_format(h, " of %s", figure_number(train->n_steps).text) : "";
    if (!(per_epoch > 0)) return html_format(h, "%s%s steps", figure_number(steps).text, of);
    return html_format(h, "%s%s steps, %s epochs", figure_number(steps).text, of,
                       figure_number(round(10 * steps / per_epoch) / 10).text);
}

/* Losses of the last interval far above those of the first, and above what a network has that knows nothing of a few
 * classes. */
static bool has_diverged(const report_train_t *train)
{
    const int n = train->curve.n;
    return n > 1 && train->curve.at[n - 1].median > fmax(10 * train->curve.at[0].median, 10);
}

/* What a reader of the result has to know; "" if there is nothing. */
static const char *warning_text(html_t *h, const html_run_t *of)
{
    const report_train_t *train = of->train;
    const char *out = "";
    int n = 0;
    if (train->curve.n_invalid > 0)
        out = html_format(h, "steps without a finite loss: %lld", (long long)train->curve.n_invalid);
    else if (has_diverged(train))
        out = html_format(h, "diverged: loss %s", figure_number(train->last_loss).text);
    if (train->replicas_differ) out = html_join(h, out, html_format(h, "replicas %s", train->replicas));
    if (train->n_val == 0 && best_of(train)) out = html_join(h, out, "validated on its training images");
    if (train->n_corrupt > 0)
        out =
            html_join(h, out, html_format(h, "unreadable images: %s", figure_number(train->n_corrupt).text));
    if (train->resumed && strcmp(train->resumed, "differs") == 0)
        out = html_join(h, out, "its first loss after a resume differs from the recorded one");
    for (const report_straggler_t *s = train->stragglers; s; s = s->next) n++;
    if (n > 0)
        out = html_join(h, out,
                        html_format(h, "slow ranks: rank %s on %s%s",
                                    figure_number(train->stragglers->rank).text, train->stragglers->host,
                                    n > 1 ? ", …" : ""));
    const double wait = train->step_sec[STEP_DATA] / train->step_sec[STEP_TOTAL];
    if (wait > 0.1)
        out = html_join(h, out, html_format(h, "waits for images: %s of a step", figure_percent(wait).text));
    return out;
}

/* "lenet5, fp32, batch 64, 2 ranks, cpu" */
static const char *setting_text(html_t *h, const report_train_t *train)
{
    const char *out = html_join(h, train->model, train->precision);
    if (isfinite(train->global_batch))
        out = html_join(h, out, html_format(h, "batch %s", figure_number(train->global_batch).text));
    if (isfinite(train->ranks))
        out = html_join(
            h, out,
            html_format(h, "%s rank%s", figure_number(train->ranks).text, train->ranks > 1 ? "s" : ""));
    return html_join(h, out, train->device);
}

static void print_line(html_t *h, const html_run_t *run, int style)
{
    const report_train_t *train = run->train;
    const report_rates_t rates = report_rates(train);
    const char *warning = warning_text(h, run);
    html_put(h, "<tr><th scope=\"row\">");
    if (style >= 0) html_put(h, "<i class=\"key c%d\"></i>", style % CHART_COLOURS);
    html_put(h, "%s<span class=\"said\">%s</span></th>", run->name, setting_text(h, train));
    html_put(h, "<td class=\"t\"><b class=\"big\">%s</b><span class=\"said\">%s</span></td>",
             result_text(h, run), result_note(h, run));
    html_put(h, "<td class=\"t\">%s<span class=\"said\">images/s</span></td>",
             html_format(h, "%s", figure_throughput(rates.mean, rates.median, "").text));
    html_put(h, "<td class=\"t\">%s<span class=\"said\">%s</span></td>", time_text(h, train),
             length_text(h, run));
    html_put(h, "<td class=\"t\">%s", run->end[0] ? run->end : "still running or killed");
    if (warning[0]) html_put(h, "<span class=\"warns\">%s</span>", warning);
    html_put(h, "</td></tr>\n");
}

static void print_confusion(html_t *h, const html_run_t *run)
{
    enum { LEVELS = 8 };
    const report_train_t *train = run->train;
    const int n = train->n_confusion;
    const char *const *names = train->n_classes == n ? train->classes : NULL;
    html_put(h, "<figure class=\"confusion\">\n<h3>Confusions after step %s</h3>\n",
             figure_number(train->confusion_step).text);
    html_put(h, "<div class=\"scroll\" tabindex=\"0\"><table><thead><tr><td></td>");
    for (int k = 0; k < n; k++)
        html_put(h, "<th scope=\"col\">%s</th>", names ? names[k] : html_format(h, "%d", k));
    html_put(h, "</tr></thead>\n<tbody>\n");
    for (int r = 0; r < n; r++) {
        const int64_t *row = train->confusion + (ptrdiff_t)r * n;
        double sum = 0;
        for (int k = 0; k < n; k++) sum += (double)row[k];
        html_put(h, "<tr><th scope=\"row\">%s</th>", names ? names[r] : html_format(h, "%d", r));
        for (int k = 0; k < n; k++) {
            const double share = sum > 0 ? (double)row[k] / sum : 0;
            /* Few confusions among many right answers are what one looks for. */
            html_put(h, "<td class=\"%s%d\">%s</td>", r == k ? "h" : "e", (int)ceil(LEVELS * sqrt(share)),
                     html_format(h, "%lld", (long long)row[k]));
        }
        html_put(h, "</tr>\n");
    }
    html_put(
        h, "</tbody></table></div>\n<figcaption>Rows: label; columns: prediction.</figcaption>\n</figure>\n");
}

static void print_folded(html_t *h, const char *title, const table_t *table)
{
    if (table->n_rows == 0) return;
    html_put(h, "<details><summary>%s</summary>\n", title);
    if (table->caption && table->caption[0]) html_put(h, HTML_CAPTION, table->caption);
    html_table(h, table);
    html_put(h, "</details>\n");
}

/* The most expensive layers of a step, and how near they are to what the machine can do. */
static err_t make_layers(html_t *h, const report_train_t *train, table_t *out)
{
    *out = (table_t){
        .title = "layers",
        .caption = "the most expensive first, without rank 0's waiting; of bound: the least time that this "
                   "machine's arithmetic or memory allows, divided by the time",
        .columns = {{"layer", true},
                    {"operator", true},
                    {"forward", false},
                    {"backward", false},
                    {"of the step", false},
                    {"bound by", true},
                    {"of bound", false}},
        .n_columns = 7,
        .n_rows = train->n_layers};
    TRY(arena_new(&h->arena, sizeof *out->cells * (size_t)(7 * train->n_layers + 1), &out->cells));
    const char **cell = out->cells;
    for (int i = 0; i < train->n_layers; i++) {
        const report_layer_t *l = &train->layers[i];
        *cell++ = l->name;
        *cell++ = l->op;
        *cell++ = html_format(h, "%s", figure_time(l->forward_sec).text);
        *cell++ = html_format(h, "%s", figure_time(l->backward_sec).text);
        *cell++ = html_format(h, "%s", figure_percent(l->share).text);
        *cell++ = l->bound;
        *cell++ = html_format(h, "%s", figure_percent(l->share_of_bound).text);
    }
    return ERR_OK;
}

static err_t make_slowest(html_t *h, const report_train_t *train, table_t *out)
{
    *out = (table_t){
        .title = "slowest ranks",
        .caption = "time per step in each phase, and that of the usual rank",
        .columns = {{"phase", true}, {"rank", false}, {"host", true}, {"per step", false}, {"usual", false}},
        .n_columns = 5,
        .n_rows = train->ranks > 1 ? train->n_slowest : 0};
    TRY(arena_new(&h->arena, sizeof *out->cells * (size_t)(5 * train->n_slowest + 1), &out->cells));
    const char **cell = out->cells;
    for (int i = 0; i < train->n_slowest; i++) {
        const report_slowest_t *s = &train->slowest[i];
        *cell++ = s->phase;
        *cell++ = html_format(h, "%s", figure_number(s->rank).text);
        *cell++ = s->host;
        *cell++ = html_format(h, "%s", figure_time(s->sec).text);
        *cell++ = html_format(h, "%s", figure_time(s->usual_sec).text);
    }
    return ERR_OK;
}

/* Slow ranks are not folded. */
static err_t print_details(html_t *h, const html_run_t *run, bool named)
{
    const char *of = named ? html_format(h, " of %s", run->name) : "";
    table_t table;
    TRY(train_stragglers(&h->arena, run->train, &table));
    if (table.n_rows > 0) {
        html_put(h, "<p class=\"note\">Stragglers%s: %s.</p>\n", of, table.caption);
        html_table(h, &table);
    }
    TRY(train_epochs(&h->arena, run->train, &table));
    print_folded(h, html_format(h, "Epochs%s", of), &table);
    TRY(make_slowest(h, run->train, &table));
    print_folded(h, html_format(h, "Slowest ranks%s", of), &table);
    TRY(make_layers(h, run->train, &table));
    print_folded(h, html_format(h, "Layers%s", of), &table);
    return ERR_OK;
}

/* Whether an option tells only where a run wrote or began. */
static bool is_place(const char *option)
{
    static const char *const places[] = {"out", "overwrite", "resume", "config", "tensorboard", "trace"};
    for (size_t k = 0; k < sizeof places / sizeof *places; k++)
        if (strcmp(option, places[k]) == 0) return true;
    return false;
}

/* The runs' values of an option, "-" where there is none. Returns whether they differ. */
static bool list_values(const view_t *v, const char *option, const char *cells[MAX_RUNS])
{
    bool differs = false;
    for (int i = 0; i < v->n; i++) {
        figure_t room;
        const report_field_t *field = fields_find(v->runs[i].train->options, option);
        cells[i] = field ? html_format(v->h, "%s", fields_text(field, &room)) : "-";
        differs = differs || strcmp(cells[i], cells[0]) != 0;
    }
    return differs;
}

static void print_differences(const view_t *v)
{
    html_t *h = v->h;
    table_column_t columns[MAX_RUNS + 1] = {{"option", .is_text = true}};
    int n_rows = 0;
    for (int i = 0; i < v->n; i++) columns[1 + i] = (table_column_t){v->runs[i].name, .is_text = true};
    for (int i = 0; i < v->n; i++) {
        const report_fields_t options = v->runs[i].train->options;
        for (int f = 0; f < options.n; f++) {
            const char *cells[MAX_RUNS + 1] = {options.at[f].name};
            bool listed = is_place(cells[0]); /* or by an earlier run */
            for (int k = 0; k < i && !listed; k++)
                listed = fields_find(v->runs[k].train->options, cells[0]) != NULL;
            if (listed || !list_values(v, cells[0], cells + 1)) continue;
            if (n_rows++ == 0) {
                html_put(h, "<h3>Options that differ</h3>\n");
                html_table_begin(h, columns, v->n + 1);
            }
            html_row(h, columns, v->n + 1, cells);
        }
    }
    if (n_rows > 0) html_table_end(h);
}

static const char *caption_of(const view_t *v)
{
    const int n_rest = v->n_all - v->n;
    const char *rest = n_rest > 0 ? html_format(v->h, " %d more run%s only in the table.", n_rest,
                                                n_rest > 1 ? "s are" : " is")
                                  : "";
    const char *base = v->h->in->base ? "; thin: the base, its training dashed without markers" : "";
    return html_format(
        v->h,
        "Solid: training; dashed with markers: validation%s. Of losses less is better, of the others more. "
        "Curves are medians of up to %d intervals of steps%s%s. The mouse shows values.%s",
        base, CURVE_MAX, v->n <= 2 ? ", bands their minimum and maximum" : "",
        v->one && v->runs[0].train->n_resumed > 0 ? "; vertical lines: where the run was resumed" : "", rest);
}

err_t html_training(html_t *h)
{
    const int n = h->n_runs;
    const view_t v = {.h = h,
                      .runs = h->runs,
                      .n = n < MAX_RUNS ? n : MAX_RUNS,
                      .n_all = n,
                      .one = n == 1,
                      .by_epoch = n > 0 && shows_epochs(h->runs, n < MAX_RUNS ? n : MAX_RUNS)};
    if (n == 0) return ERR_OK;
    if (h->only_trains) html_warnings(h);
    html_put(h, "<table class=\"runs\"><tbody>\n");
    for (int i = 0; i < n; i++) print_line(h, &h->runs[i], v.one || i >= v.n ? -1 : i);
    html_put(h, "</tbody></table>\n");
    TRY(add_losses(&v));
    TRY(v.one ? add_fractions(&v, true) : add_fractions_of_runs(&v));
    if (v.one) TRY(add_fractions(&v, false));
    TRY(add_rates(&v));
    if (h->n_panels > 0) {
        html_panels_print(h);
        html_put(h, HTML_CAPTION, caption_of(&v));
    }
    print_differences(&v);
    if (v.one && h->runs[0].train->confusion) print_confusion(h, &h->runs[0]);
    for (int i = 0; i < v.n; i++) TRY(print_details(h, &h->runs[i], n > 1));
    return ERR_OK;
}
