/* SPDX-License-Identifier: MIT */
/* The section on training steps: scaling efficiency, and step time by phase. */
#include <math.h>
#include <string.h>

#include "base/figure.h"
#include "report/html/parts.h"
#include "report/records/report.h"

static const html_spec_t efficiency_spec = {.case_name = "step",
                                            .figure = "efficiency",
                                            .row = {"ranks"},
                                            .series = {"test"},
                                            .ignore = {"batch", "data_xxh3"},
                                            .x = "ranks",
                                            .low = "efficiency_low",
                                            .high = "efficiency_high"};

static bool is_trained(const report_run_t *run)
{
    return run->train && run->train->n_steady > 0 && run->train->step_sec[STEP_TOTAL] > 0;
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
    starts = "";
    if (m->n_starts > 1) TRY(arena_format(&h->arena, &starts, " Medians of %d starts.", m->n_starts));
    if (m->at[HTML_BASE])
        TRY(arena_format(&h->arena, &starts, "%s Dashed lines and hollow markers: base.", starts));
    TRY(arena_format(&h->arena, &title, "Scaling efficiency%s%s", m->name[0] ? ": " : "", m->name));
    TRY(arena_format(
        &h->arena, &caption,
        "Higher is better; 100 %% is ideal. Whiskers: quartiles. weak: the batch grows with the ranks; "
        "strong: the batch is fixed; alone: the ranks do not communicate, which shows how much they slow "
        "each other down. Source: efficiency of dptrain bench step.%s",
        starts));
    TRY(html_matrix_table(h, m, "ranks", html_label_percent, &table));
    html_figure(h, title);
    html_lines(h, &chart);
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

static double shown_share(double share)
{
    return isfinite(share) && share > 0 ? fmin(share, 1) : 0;
}

/* Fills in the rest. Shares that were not measured together may exceed the step: then it divides them by their
 * sum. */
static void finish_split(step_split_t *split)
{
    double sum = 0;
    for (int part = 0; part < PART_OTHER; part++) sum += split->share[part];
    for (int part = 0; part < PART_OTHER && sum > 1; part++) split->share[part] /= sum;
    split->share[PART_OTHER] = fmax(1 - sum, 0);
}

/* Adds the shares of a start's samples; *found: it has any. */
static err_t add_samples(const metric_start_t *start, double share[N_PARTS], bool *found)
{
    static const struct {
        const char *name;
        int part;
    } names[] = {{"data", PART_DATA},
                 {"forward", PART_FORWARD},
                 {"backward", PART_BACKWARD},
                 {"allreduce", PART_COMM},
                 {"optimizer", PART_OPTIMIZER}};
    const double *parts[5];
    double shares[5];
    int to[5], n = 0;
    for (int i = 1; i < start->n_samples; i++)
        for (int k = 0; k < 5 && n < 5; k++) {
            if (strcmp(start->samples[i].part, names[k].name) != 0) continue;
            to[n] = names[k].part;
            parts[n++] = start->samples[i].sec;
        }
    *found = n > 0;
    if (n == 0) return ERR_OK;
    TRY(split_shares(start->samples[0].sec, parts, n, start->samples[0].n, shares));
    for (int i = 0; i < n; i++) share[to[i]] += shown_share(shares[i]);
    return ERR_OK;
}

static err_t bench_split(html_t *h, const html_item_t *item, int side, step_split_t *out)
{
    /* Of records without samples of parts, whose forward and backward are one. */
    static const struct {
        const char *name;
        int part;
    } shares[] = {{"data_wait_share", PART_DATA},
                  {"compute_share", PART_COMPUTE},
                  {"exposed_comm_share", PART_COMM},
                  {"optimizer_share", PART_OPTIMIZER}};
    double sec;
    int n = 0;
    bool found;
    *out = (step_split_t){0};
    /* Mean over the starts that have samples of parts, so that the shares add up. */
    for (const metric_start_t *start = item->side[side]->starts; start; start = start->next) {
        TRY(add_samples(start, out->share, &found));
        n += found;
    }
    for (int part = 0; part < N_PARTS && n > 0; part++) out->share[part] /= n;
    for (int i = 0; n == 0 && i < 4; i++) {
        html_value_t value;
        TRY(html_value(h, item->side[side], shares[i].name, &value));
        out->share[shares[i].part] = shown_share(value.middle);
    }
    finish_split(out);
    TRY(html_seconds(h, item, side, &sec));
    TRY(arena_format(&h->arena, &out->time, "%s", figure_time(sec).text));
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
    const double *sec = run->train->step_sec;
    *out = (step_split_t){0};
    for (int i = 0; i < 5; i++) out->share[parts[i].part] = shown_share(sec[parts[i].step] / sec[STEP_TOTAL]);
    finish_split(out);
    TRY(html_train_name(h, report, run, &out->name));
    TRY(arena_format(&h->arena, &out->name, "%s%s", is_base ? "base: " : "", out->name));
    return arena_format(&h->arena, &out->time, "%s", figure_time(sec[STEP_TOTAL]).text);
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
        "Shares of a step, which add up to its median time, on the right. Smaller is better except for forward and "
        "backward. Source: %s.",
        from));
    if (n > n_rows) TRY(arena_format(&h->arena, &caption, "%s %d more in the data.", caption, n - n_rows));
    const char **cell;
    table = (table_t){.n_columns = N_PARTS + 2, .n_rows = n};
    table.columns[0] = (table_column_t){.heading = "step", .is_text = true};
    table.columns[1].heading = "time";
    TRY(arena_new(&h->arena, sizeof *cell * (size_t)n * (N_PARTS + 2), &cell));
    table.cells = cell;
    for (int part = 0; part < N_PARTS; part++) table.columns[2 + part].heading = part_names[part];
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
    html_figure(h, title);
    html_stack(h, &chart);
    html_figure_end(h, caption, &table);
    return ERR_OK;
}

static err_t draw_steps(html_t *h, const void *efficiency)
{
    const report_t *const sides[] = {h->in->now, h->in->base};
    step_split_t *splits, *runs;
    int n = 0, n_most = 0, n_runs = 0;
    for (const html_matrix_t *m = efficiency; m; m = m->next) TRY(draw_efficiency(h, m));
    TRY(arena_new(&h->arena, sizeof *splits * (size_t)(HTML_SIDES * h->n_items + 1), &splits));
    for (int i = 0; i < h->n_items; i++)
        for (int side = 0; side < HTML_SIDES && strcmp(h->items[i].case_name, "step") == 0; side++) {
            html_value_t compute;
            if (!h->items[i].side[side]) continue;
            TRY(html_value(h, h->items[i].side[side], "compute_share", &compute));
            if (compute.n == 0) continue;
            h->items[i].shown = true;
            TRY(bench_split(h, &h->items[i], side, &splits[n++]));
        }
    TRY(draw_splits(h, "Step time: bench",
                    "samples of dptrain bench step, or …_share in records without them", splits, n));
    for (int side = 0; side < HTML_SIDES; side++)
        for (const report_run_t *run = sides[side] ? sides[side]->runs : NULL; run; run = run->next)
            n_most += is_trained(run);
    TRY(arena_new(&h->arena, sizeof *runs * (size_t)(n_most + 1), &runs));
    for (int side = 0; side < HTML_SIDES; side++)
        for (const report_run_t *run = sides[side] ? sides[side]->runs : NULL; run; run = run->next)
            if (is_trained(run)) TRY(train_split(h, sides[side], run, side == HTML_BASE, &runs[n_runs++]));
    return draw_splits(h, "Step time: training",
                       "steps of dptrain train, excluding the first 10 of each process", runs, n_runs);
}

err_t html_steps(html_t *h)
{
    html_matrix_t *efficiency;
    TRY(html_matrices(h, &efficiency_spec, &efficiency));
    html_section(h, "steps", "Training steps", NULL);
    TRY(html_figures(h, draw_steps, efficiency));
    html_section_end(h);
    return ERR_OK;
}
