/* SPDX-License-Identifier: MIT */
/* The section on training steps: scaling efficiency, and step time by phase. */
#include <math.h>
#include <string.h>

#include "base/figure.h"
#include "base/stats.h"
#include "report/html/parts.h"

static const html_spec_t efficiency_spec = {.case_name = "step",
                                            .figure = "efficiency",
                                            .row = {"ranks"},
                                            .series = {"test"},
                                            .ignore = {"batch", "data_xxh3"},
                                            .x = "ranks",
                                            .low = "efficiency_low",
                                            .high = "efficiency_high"};

static bool is_step(const html_item_t *item)
{
    return strcmp(item->case_name, "step") == 0;
}

static bool is_trained(const report_run_t *run)
{
    return run->train && run->train->n_steady > 0 && run->train->median[STEP_TOTAL] > 0;
}

bool html_has_steps(const html_t *h)
{
    if (html_has_figure(h, "step", "efficiency") || html_has_figure(h, "step", "compute_share")) return true;
    for (const report_run_t *run = h->in->now->runs; run; run = run->next)
        if (is_trained(run)) return true;
    return false;
}

static err_t draw_efficiency(html_t *h, const html_matrix_t *m)
{
    chart_series_t series[CHART_MAX_SERIES];
    const char *caption, *starts, *title;
    int n_left_out;
    table_t table;
    chart_lines_t chart = {
        .about = "Scaling efficiency in percent over the number of ranks.",
        .x = {.title = "ranks", .scale = CHART_LOG2},
        .y = {.title = "efficiency", .from_zero = true, .at_least = 1.05, .label = html_label_percent},
        .series = series,
        .reference = 1,
        .side_by_side = true};
    TRY(html_matrix_series(h, m, series, &chart.n_series, &n_left_out));
    TRY(html_starts_text(h, m, "", &starts));
    TRY(arena_format(&h->arena, &title, "Scaling efficiency%s%s", m->name[0] ? ": " : "", m->name));
    TRY(arena_format(
        &h->arena, &caption,
        "Higher is better; 100 %% is ideal. Whiskers: quartiles. weak: the batch grows with the ranks; "
        "strong: the batch is fixed; alone: the ranks do not communicate, which shows how much they slow "
        "each other down. Source: efficiency of dptrain bench step.%s",
        starts));
    TRY(html_matrix_table(h, m, "ranks", html_label_percent, &table));
    html_figure(h, title);
    chart_lines_draw(h->out, &chart);
    html_figure_end(h, caption, &table);
    return ERR_OK;
}

enum { PART_DATA, PART_FORWARD, PART_BACKWARD, PART_COMPUTE, PART_COMM, PART_OPTIMIZER, PART_OTHER, N_PARTS };
static const char *const part_names[N_PARTS] = {
    "data wait", "forward", "backward", "forward and backward", "exposed comm", "optimizer", "other"};

typedef struct step_split {
    const char *name, *time;
    double share[N_PARTS];
} step_split_t;

/* Median over the starts of the median of a part's samples; NAN: not recorded. */
static err_t part_seconds(html_t *h, const metric_t *metric, const char *part, double *out)
{
    double *medians, *sorted;
    int n = 0;
    TRY(arena_new(&h->arena, sizeof *medians * (size_t)(metric->n_starts + 1), &medians));
    for (const metric_start_t *start = metric->starts; start; start = start->next)
        for (int i = 0; i < start->n_samples; i++) {
            const report_samples_t *samples = &start->samples[i];
            int64_t n_finite = 0;
            if (strcmp(samples->part, part) != 0 || samples->n == 0) continue;
            TRY(arena_new(&h->arena, sizeof *sorted * (size_t)samples->n, &sorted));
            for (int64_t k = 0; k < samples->n; k++)
                if (isfinite(samples->sec[k])) sorted[n_finite++] = samples->sec[k];
            if (n_finite > 0) medians[n++] = stats_median(sorted, n_finite);
        }
    *out = n > 0 ? stats_median(medians, n) : NAN;
    return ERR_OK;
}

static double shown_share(double share)
{
    return isfinite(share) && share > 0 ? fmin(share, 1) : 0;
}

static err_t bench_split(html_t *h, const html_item_t *item, int side, step_split_t *out)
{
    static const struct {
        const char *name;
        int part;
    } shares[] = {{"data_wait_share", PART_DATA},
                  {"compute_share", PART_COMPUTE},
                  {"exposed_comm_share", PART_COMM},
                  {"optimizer_share", PART_OPTIMIZER}};
    const metric_t *metric = item->side[side];
    double forward, backward, rest = 1, *p50;
    int n = 0;
    *out = (step_split_t){0};
    for (int i = 0; i < 4; i++) {
        html_value_t value;
        TRY(html_value(h, metric, shares[i].name, &value));
        out->share[shares[i].part] = shown_share(value.middle);
        rest -= out->share[shares[i].part];
    }
    out->share[PART_OTHER] = fmax(rest, 0);
    TRY(part_seconds(h, metric, "forward", &forward));
    TRY(part_seconds(h, metric, "backward", &backward));
    if (forward + backward > 0) {
        out->share[PART_FORWARD] = out->share[PART_COMPUTE] * forward / (forward + backward);
        out->share[PART_BACKWARD] = out->share[PART_COMPUTE] - out->share[PART_FORWARD];
        out->share[PART_COMPUTE] = 0;
    }
    TRY(arena_new(&h->arena, sizeof *p50 * (size_t)(metric->n_starts + 1), &p50));
    for (const metric_start_t *start = metric->starts; start; start = start->next) p50[n++] = start->p50;
    TRY(arena_format(&h->arena, &out->time, "%s", figure_time(stats_median(p50, n)).text));
    double ranks = html_field_number(item->key, "ranks"), batch = html_field_number(item->key, "batch");
    return arena_format(&h->arena, &out->name, "%s%s, %s rank%s, batch %s", side == HTML_BASE ? "base: " : "",
                        item->test, chart_label(ranks).text, ranks > 1 ? "s" : "", chart_label(batch).text);
}

static err_t train_split(html_t *h, const report_t *report, const report_run_t *run, bool is_base,
                         step_split_t *out)
{
    static const struct {
        int step, part;
    } parts[] = {{STEP_DATA, PART_DATA},
                 {STEP_FORWARD, PART_FORWARD},
                 {STEP_BACKWARD, PART_BACKWARD},
                 {STEP_COMM, PART_COMM},
                 {STEP_OPTIMIZER, PART_OPTIMIZER}};
    const double *median = run->train->median;
    double rest = 1;
    *out = (step_split_t){0};
    for (int i = 0; i < 5; i++) {
        out->share[parts[i].part] = shown_share(median[parts[i].step] / median[STEP_TOTAL]);
        rest -= out->share[parts[i].part];
    }
    out->share[PART_OTHER] = fmax(rest, 0);
    TRY(html_train_name(h, report, run, &out->name));
    TRY(arena_format(&h->arena, &out->name, "%s%s", is_base ? "base: " : "", out->name));
    return arena_format(&h->arena, &out->time, "%s", figure_time(median[STEP_TOTAL]).text);
}

static err_t split_table(html_t *h, const step_split_t *splits, int n, table_t *out)
{
    const char **cell;
    *out = (table_t){.n_columns = N_PARTS + 2, .n_rows = n};
    out->columns[0] = (table_column_t){.heading = "step", .is_text = true};
    out->columns[1].heading = "time";
    TRY(arena_new(&h->arena, sizeof *cell * (size_t)n * (N_PARTS + 2), &cell));
    out->cells = cell;
    for (int part = 0; part < N_PARTS; part++) out->columns[2 + part].heading = part_names[part];
    for (int i = 0; i < n; i++) {
        *cell++ = splits[i].name;
        *cell++ = splits[i].time;
        for (int part = 0; part < N_PARTS; part++) {
            *cell = NULL;
            if (splits[i].share[part] > 0)
                TRY(arena_format(&h->arena, cell, "%s", figure_percent(splits[i].share[part]).text));
            cell++;
        }
    }
    return ERR_OK;
}

static err_t draw_splits(html_t *h, const char *title, const char *from, const step_split_t *splits, int n)
{
    enum { MAX_ROWS = 24 };
    const char *rows[MAX_ROWS], *notes[MAX_ROWS], *caption;
    double shares[MAX_ROWS * N_PARTS];
    table_t table;
    int n_rows = n < MAX_ROWS ? n : MAX_ROWS;
    if (n == 0) return ERR_OK;
    for (int i = 0; i < n_rows; i++) {
        rows[i] = splits[i].name;
        notes[i] = splits[i].time;
        memcpy(shares + i * N_PARTS, splits[i].share, sizeof splits[i].share);
    }
    const chart_stack_t chart = {
        .about = "Shares of a step's time: data wait, forward, backward, exposed comm, optimizer.",
        .rows = rows,
        .notes = notes,
        .parts = part_names,
        .n_rows = n_rows,
        .n_parts = N_PARTS,
        .shares = shares};
    TRY(arena_format(
        &h->arena, &caption,
        "Shares of a step; its median time is on the right. Smaller is better except for forward and "
        "backward. Source: %s.",
        from));
    if (n > n_rows) TRY(arena_format(&h->arena, &caption, "%s %d more in the data.", caption, n - n_rows));
    TRY(split_table(h, splits, n, &table));
    html_figure(h, title);
    chart_stack_draw(h->out, &chart);
    html_figure_end(h, caption, &table);
    return ERR_OK;
}

static err_t bench_splits(html_t *h)
{
    step_split_t *splits;
    int n = 0;
    TRY(arena_new(&h->arena, sizeof *splits * (size_t)(HTML_SIDES * h->n_items + 1), &splits));
    for (int i = 0; i < h->n_items; i++)
        for (int side = 0; side < HTML_SIDES && is_step(&h->items[i]); side++) {
            html_value_t compute;
            if (!h->items[i].side[side]) continue;
            TRY(html_value(h, h->items[i].side[side], "compute_share", &compute));
            if (compute.n == 0) continue;
            h->items[i].shown = true;
            TRY(bench_split(h, &h->items[i], side, &splits[n++]));
        }
    return draw_splits(h, "Step time: bench", "…_share of dptrain bench step", splits, n);
}

static err_t train_splits(html_t *h)
{
    const report_t *const sides[] = {h->in->now, h->in->base};
    step_split_t *splits;
    int n_most = 0, n = 0;
    for (int side = 0; side < HTML_SIDES; side++)
        for (const report_run_t *run = sides[side] ? sides[side]->runs : NULL; run; run = run->next)
            n_most += is_trained(run);
    TRY(arena_new(&h->arena, sizeof *splits * (size_t)(n_most + 1), &splits));
    for (int side = 0; side < HTML_SIDES; side++)
        for (const report_run_t *run = sides[side] ? sides[side]->runs : NULL; run; run = run->next)
            if (is_trained(run)) TRY(train_split(h, sides[side], run, side == HTML_BASE, &splits[n++]));
    return draw_splits(h, "Step time: training",
                       "medians of the steps of dptrain train, excluding the first 10 of each process",
                       splits, n);
}

err_t html_steps(html_t *h)
{
    html_matrix_t *m;
    TRY(html_matrices(h, &efficiency_spec, &m));
    html_section(h, "steps", "Training steps", NULL);
    html_figures(h);
    for (; m; m = m->next) TRY(draw_efficiency(h, m));
    TRY(bench_splits(h));
    TRY(train_splits(h));
    html_figures_end(h);
    html_section_end(h);
    return ERR_OK;
}
