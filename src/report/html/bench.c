/* SPDX-License-Identifier: MIT */
/* The sections on what dptrain bench measures: bandwidth over message size; memory, GEMM, convolution and I/O;
 * scaling efficiency. With them the split of a step by phase, which training runs have as well. */
#include <math.h>
#include <string.h>

#include "report/html/panel.h"
#include "report/records/report.h"

/* The panels of the values that a spec selects. */
typedef struct bench_panel {
    html_spec_t spec;
    const char *title, *caption; /* title "": that of the table */
    const char *axis;            /* of bars */
    /* Of lines over x; about: after the title. */
    const chart_lines_t *lines;
    const char *about, *row_heading;
    figure_t (*figure)(double value);
} bench_panel_t;

static const chart_lines_t bandwidth_lines = {
    .x = {.title = "message size", .scale = CHART_LOG2, .label = figure_size},
    .y = {.title = "bus bandwidth, GB/s", .scale = CHART_LOG},
    .reference = NAN};
static const chart_lines_t efficiency_lines = {
    .x = {.title = "ranks", .scale = CHART_LOG2},
    .y = {.title = "efficiency", .from_zero = true, .at_least = 1.05, .label = html_label_percent},
    .reference = 1,
    .side_by_side = true};

static const bench_panel_t comm_panels[] = {
    {{"comm", "busbw_gbs", .table = {"test"}, .row = {"bytes"}, .series = {"communicator"},
      .ignore = {"count"}, .x = "bytes", .min_rows = 2, .rest_is_series = true},
     "",
     "Higher is better. Both axes are logarithmic. Source: busbw_gbs of dptrain bench comm.",
     .lines = &bandwidth_lines,
     .about = ": bus bandwidth in GB/s over message size.",
     .row_heading = "bytes",
     .figure = html_label_figure},
    /* Collectives that were measured at a single message size. */
    {{"comm", "busbw_gbs", .row = {"test", "bytes"}, .series = {"communicator"}, .ignore = {"count"},
      .rest_is_series = true},
     "Bus bandwidth",
     "Higher is better. Source: busbw_gbs of dptrain bench comm.",
     .axis = "bus bandwidth, GB/s"}};

static const bench_panel_t speed_panels[] = {
    {{"mem", "gbs_all", .row = {"level"}, .series = {"test"}, .ignore = {"bytes"}, .needs = "level"},
     "Memory bandwidth, all ranks",
     "Higher is better. Source: gbs_all of dptrain bench mem.",
     .axis = "GB/s of all ranks"},
    {{"gemm", "gflops_all", .row = {"shape", "m", "n", "k"}, .series = {"dtype"}},
     "Matrix products, all ranks",
     "Higher is better. Source: gflops_all of dptrain bench gemm; rows are m×n×k.",
     .axis = "GFLOP/s of all ranks"},
    {{"io", "gbs_all", .row = {"test", "cache"}, .ignore = {"bytes"}},
     "Files, all active ranks",
     "Higher is better. Source: gbs_all of dptrain bench io.",
     .axis = "GB/s of all active ranks"},
    /* Last, because these are the tallest. */
    {{"conv", "gflops_all", .table = {"net"}, .row = {"layer"}, .series = {"test"}, .ignore = {"operator"}},
     "Convolutions, all ranks",
     "Higher is better. Source: gflops_all of dptrain bench conv.",
     .axis = "GFLOP/s of all ranks"}};

static const bench_panel_t efficiency_panel = {
    {"step", "efficiency", .row = {"ranks"}, .series = {"test"}, .ignore = {"batch", "data_xxh3"},
     .x = "ranks", .low = "efficiency_low", .high = "efficiency_high"},
    "Scaling efficiency",
    "Higher is better; 100 % is ideal. Whiskers: quartiles. weak: the batch grows with the ranks; strong: "
    "the batch is fixed; alone: the ranks do not communicate, which shows how much they slow each other down. "
    "Source: efficiency of dptrain bench step.",
    .lines = &efficiency_lines,
    .about = " in percent over the number of ranks.",
    .row_heading = "ranks",
    .figure = html_label_percent};

/* The caption, with how the values came about. */
static const char *values_caption(html_t *h, const bench_panel_t *of, const html_values_t *m)
{
    const chart_table_t *t = &m->table;
    bool has_whiskers = false, has_disturbed = false;
    const char *caption = of->caption;
    for (int i = 0; i < t->n_rows * t->n_series; i++) {
        has_whiskers |= isfinite(t->values[i].low);
        has_disturbed |= t->values[i].disturbed || (t->base && t->base[i].disturbed);
    }
    if (m->n_starts > 1)
        caption = html_format(h, "%s Medians of %d starts%s.", caption, m->n_starts,
                              of->spec.low ? "" : "; whiskers: minimum and maximum");
    else if (m->n_starts == 1 && has_whiskers && !of->spec.low)
        caption = html_format(h, "%s Whiskers: 95 %% interval of the median.", caption);
    if (h->in->comparison && !of->spec.low)
        caption = html_format(h, "%s Compared values follow from the times of the verdict.", caption);
    if (has_disturbed)
        caption = html_format(h, "%s %s: other load disturbed at least half of the starts.", caption,
                              of->lines ? "Crossed out" : "!");
    if (t->base)
        caption = html_format(h, "%s %s: base.", caption,
                              of->lines ? "Dashed lines and hollow markers" : "Tick on a bar");
    return caption;
}

/* The series as lines over x; the rest is counted. */
static err_t values_series(html_t *h, const html_values_t *m, chart_lines_t *lines, int *n_left_out)
{
    const chart_table_t *t = &m->table;
    chart_series_t *series;
    TRY(arena_new(&h->arena, CHART_MAX_SERIES * sizeof *series, &series));
    lines->series = series;
    for (int i = 0; i < t->n_series * HTML_SIDES; i++) {
        int s = i / HTML_SIDES;
        bool is_base = i % HTML_SIDES == HTML_BASE, any = false;
        const chart_value_t *at = is_base ? t->base : t->values;
        if (!at) continue;
        at += s * t->n_rows;
        for (int row = 0; row < t->n_rows; row++) any |= at[row].n > 0;
        if (any && lines->n_series == CHART_MAX_SERIES)
            ++*n_left_out;
        else if (any)
            series[lines->n_series++] =
                (chart_series_t){.name = is_base ? html_join(h, t->series[s], "base") : t->series[s],
                                 .style = m->style[s],
                                 .n = t->n_rows,
                                 .at = at,
                                 .markers = true,
                                 .is_base = is_base};
    }
    return ERR_OK;
}

static err_t add_panels(html_t *h, const bench_panel_t *of)
{
    html_values_t *m;
    TRY(html_values(h, &of->spec, &m));
    for (; m; m = m->next) {
        int n_left_out = 0;
        html_panel_t panel = {.caption = values_caption(h, of, m), .row_heading = "", .table = m->table};
        panel.title = html_format(h, "%s%s%s", of->title, of->title[0] && m->name[0] ? ": " : "", m->name);
        panel.table.axis = of->axis;
        panel.table.figure = html_label_figure;
        if (of->lines) {
            panel.row_heading = of->row_heading;
            panel.table.figure = of->figure;
            panel.lines = *of->lines;
            panel.lines.about = html_format(h, "%s%s", panel.title, of->about);
            TRY(values_series(h, m, &panel.lines, &n_left_out));
        } else {
            panel.table.about = html_format(h, "Bar chart: %s.", panel.title);
            n_left_out = m->table.n_series - CHART_COLOURS;
        }
        if (n_left_out > 0)
            panel.caption = html_format(h, "%s %d more %s in the data.", panel.caption, n_left_out,
                                        of->lines ? "lines" : "series");
        TRY(html_panel_add(h, &panel));
    }
    return ERR_OK;
}

err_t html_comm(html_t *h)
{
    for (int i = 0; i < 2; i++) TRY(add_panels(h, &comm_panels[i]));
    if (h->n_panels > 0)
        html_put(h, "<p>Bus bandwidth is the traffic on the slowest link; it is comparable across numbers of "
                    "ranks.</p>\n");
    html_panels_print(h);
    return ERR_OK;
}

err_t html_speed(html_t *h)
{
    for (size_t i = 0; i < sizeof speed_panels / sizeof *speed_panels; i++)
        TRY(add_panels(h, &speed_panels[i]));
    html_panels_print(h);
    return ERR_OK;
}

enum { PART_DATA, PART_FORWARD, PART_BACKWARD, PART_COMPUTE, PART_COMM, PART_OPTIMIZER, PART_OTHER, N_PARTS };
static const char *const part_names[N_PARTS] = {
    "data wait", "forward", "backward", "forward and backward", "exposed comm", "optimizer", "other"};

/* The parts of a step in the samples of dptrain bench, and in the steps of training. */
static const struct {
    const char *name;
    int step, part;
} measured_parts[] = {{"data", STEP_DATA, PART_DATA},
                      {"forward", STEP_FORWARD, PART_FORWARD},
                      {"backward", STEP_BACKWARD, PART_BACKWARD},
                      {"allreduce", STEP_COMM, PART_COMM},
                      {"optimizer", STEP_OPTIMIZER, PART_OPTIMIZER}};
enum { N_MEASURED = sizeof measured_parts / sizeof *measured_parts };

/* A step and its parts. */
typedef struct split {
    const char *name, *time;
    double share[N_PARTS]; /* of the step; the rest is other */
} split_t;

static double shown_share(double share)
{
    return isfinite(share) && share > 0 ? fmin(share, 1) : 0;
}

/* Adds the shares of a start's samples; *n counts the starts that have any. */
static err_t add_samples(const metric_start_t *start, double share[N_PARTS], int *n)
{
    const double *parts[N_MEASURED];
    double shares[N_MEASURED];
    int to[N_MEASURED], n_parts = 0;
    for (int i = 1; i < start->n_samples; i++)
        for (int k = 0; k < N_MEASURED && n_parts < N_MEASURED; k++) {
            if (strcmp(start->samples[i].part, measured_parts[k].name) != 0) continue;
            to[n_parts] = measured_parts[k].part;
            parts[n_parts++] = start->samples[i].sec;
        }
    if (n_parts == 0) return ERR_OK;
    TRY(split_shares(start->samples[0].sec, parts, n_parts, start->samples[0].n, shares));
    for (int i = 0; i < n_parts; i++) share[to[i]] += shown_share(shares[i]);
    ++*n;
    return ERR_OK;
}

static err_t bench_split(html_t *h, const html_item_t *item, int side, split_t *out)
{
    /* Of records without samples of parts, whose forward and backward are one. */
    static const struct {
        const char *name;
        int part;
    } recorded[] = {{"data_wait_share", PART_DATA},
                    {"compute_share", PART_COMPUTE},
                    {"exposed_comm_share", PART_COMM},
                    {"optimizer_share", PART_OPTIMIZER}};
    double sec, *share = out->share;
    int n = 0;
    *out = (split_t){.time = NULL};
    /* Mean over the starts that have samples of parts, so that the shares add up. */
    for (const metric_start_t *start = item->side[side]->starts; start; start = start->next)
        TRY(add_samples(start, share, &n));
    for (int part = 0; part < N_PARTS && n > 0; part++) share[part] /= n;
    for (int i = 0; n == 0 && i < 4; i++) {
        chart_value_t value;
        TRY(html_value(h, item->side[side], recorded[i].name, &value));
        share[recorded[i].part] = shown_share(value.y);
    }
    TRY(html_seconds(h, item, side, &sec));
    double ranks = html_field_number(item->key, "ranks"), batch = html_field_number(item->key, "batch");
    out->time = html_format(h, "%s", figure_time(sec).text);
    out->name = html_format(h, "%s%s, %s rank%s, batch %s", side == HTML_BASE ? "base: " : "", item->test,
                            chart_label(ranks).text, ranks > 1 ? "s" : "", chart_label(batch).text);
    return ERR_OK;
}

/* Shares that were not measured together may exceed the step: then it divides them by their sum. */
static err_t add_splits_panel(html_t *h, const char *title, const char *from, const split_t *splits, int n)
{
    const char **rows, **notes, *caption;
    chart_value_t *values;
    if (n == 0) return ERR_OK;
    TRY(arena_new(&h->arena, (size_t)n * sizeof *rows, &rows));
    TRY(arena_new(&h->arena, (size_t)n * sizeof *notes, &notes));
    TRY(arena_new(&h->arena, (size_t)n * N_PARTS * sizeof *values, &values));
    for (int i = 0; i < n; i++) {
        double sum = 0;
        rows[i] = splits[i].name;
        notes[i] = splits[i].time;
        for (int part = 0; part < PART_OTHER; part++) sum += splits[i].share[part];
        for (int part = 0; part < N_PARTS; part++) {
            double share = part == PART_OTHER ? 1 - sum : splits[i].share[part] / fmax(sum, 1);
            values[part * n + i] = (chart_value_t){.y = share > 0 ? share : NAN};
        }
    }
    caption = html_format(
        h,
        "Shares of a step, which add up to its median time, on the right. Smaller is better except for forward and "
        "backward. Source: %s.",
        from);
    if (n > CHART_MAX_TOTALS)
        caption = html_format(h, "%s %d more in the data.", caption, n - CHART_MAX_TOTALS);
    return html_panel_add(
        h, &(html_panel_t){
               .title = title,
               .caption = caption,
               .row_heading = "step",
               .table = {
                   .about = "Shares of a step's time: data wait, forward, backward, exposed comm, optimizer.",
                   .figure = figure_percent,
                   .rows = rows,
                   .notes = notes,
                   .series = part_names,
                   .n_rows = n,
                   .n_series = N_PARTS,
                   .values = values}});
}

err_t html_steps(html_t *h)
{
    split_t *splits, *runs;
    int n = 0, n_runs = 0;
    TRY(add_panels(h, &efficiency_panel));
    TRY(arena_new(&h->arena, (size_t)(HTML_SIDES * h->n_items + 1) * sizeof *splits, &splits));
    TRY(arena_new(&h->arena, (size_t)(h->n_runs + 1) * sizeof *runs, &runs));
    for (int i = 0; i < h->n_items; i++)
        for (int side = 0; side < HTML_SIDES && strcmp(h->items[i].case_name, "step") == 0; side++) {
            chart_value_t compute;
            TRY(html_value(h, h->items[i].side[side], "compute_share", &compute));
            if (compute.n == 0) continue;
            h->items[i].shown = true;
            TRY(bench_split(h, &h->items[i], side, &splits[n++]));
        }
    for (int i = 0; i < h->n_runs; i++) {
        const double *sec = h->runs[i].train->step_sec;
        if (h->runs[i].train->n_steady <= 0 || !(sec[STEP_TOTAL] > 0)) continue;
        split_t *split = &runs[n_runs++];
        *split = (split_t){h->runs[i].name, html_format(h, "%s", figure_time(sec[STEP_TOTAL]).text), {0}};
        for (int k = 0; k < N_MEASURED; k++)
            split->share[measured_parts[k].part] = shown_share(sec[measured_parts[k].step] / sec[STEP_TOTAL]);
    }
    TRY(add_splits_panel(h, "Step time: bench",
                         "samples of dptrain bench step, or …_share in records without them", splits, n));
    TRY(add_splits_panel(h, "Step time: training",
                         "steps of dptrain train, excluding the first 10 of each process", runs, n_runs));
    html_panels_print(h);
    return ERR_OK;
}
