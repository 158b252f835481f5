/* SPDX-License-Identifier: MIT */
/* A forecast as tables, and as a record for report. */
#include <math.h>
#include <string.h>

#include "base/figure.h"
#include "base/table.h"
#include "tools/forecast/forecast.h"

static figure_t rate_of(double gbps)
{
    figure_t figure = {"measured"};
    if (isfinite(gbps)) snprintf(figure.text, sizeof figure.text, "%.4g Gbit/s", gbps);
    return figure;
}

static err_t print_inputs(const forecast_t *f, FILE *out)
{
    table_t table = {.columns = {{"input", true}, {"origin", true}, {"from", true}, {"value", true}},
                     .n_columns = 4};
    for (int i = 0; i < f->n_inputs; i++) {
        const forecast_input_t *input = &f->inputs[i];
        table_cell(&table, "%s", input->name);
        table_cell(&table, "%s", forecast_origin_names[input->origin]);
        table_cell(&table, "%s", input->from);
        table_cell(&table, "%s", input->value);
    }
    err_t err = table_print(&table, out);
    table_free(&table);
    return err;
}

static void point_row(table_t *table, const forecast_point_t *p)
{
    table_cell(table, "%.0f", p->n_hosts);
    table_cell(table, "%.0f", p->n_ranks);
    table_cell(table, "%s", rate_of(p->gbps).text);
    table_cell(table, "%s", figure_time(p->step_sec).text);
    table_cell(table, "%.4g", p->images_per_sec);
    table_cell(table, "%.1f", 100 * p->efficiency);
    table_cell(table, "%.1f to %.1f%s", 100 * p->efficiency_low, 100 * p->efficiency_high,
               p->n_reasons ? "*" : "");
    table_cell(table, "%s", p->limit);
    for (int part = STEP_SLOWEST; part < STEP_N_PARTS; part++)
        table_cell(table, "%.1f", 100 * fmax(p->part_sec[part], 0) / p->step_sec);
}

static err_t print_points(const forecast_t *f, FILE *out)
{
    table_t table = {.columns = {{"hosts"},
                                 {"ranks"},
                                 {"network", true},
                                 {"step"},
                                 {"images/s"},
                                 {"efficiency", .unit = "%"},
                                 {"90 % interval", true},
                                 {"limited by", true},
                                 {"slowest rank", .unit = "%"},
                                 {"latency", .unit = "%"},
                                 {"bandwidth", .unit = "%"}},
                     .n_columns = 11};
    for (int i = 0; i < f->n_points; i++) point_row(&table, &f->points[i]);
    err_t err = table_print(&table, out);
    table_free(&table);
    return err;
}

static err_t print_job(const forecast_t *f, FILE *out)
{
    table_t table = {.columns = {{"hosts"},
                                 {"network", true},
                                 {"job", .unit = "h"},
                                 {"efficiency", .unit = "%"},
                                 {"start"},
                                 {"steps"},
                                 {"evaluations"},
                                 {"checkpoints"}},
                     .n_columns = 8};
    for (int i = 0; i < f->n_points; i++) {
        const forecast_point_t *p = &f->points[i];
        table_cell(&table, "%.0f", p->n_hosts);
        table_cell(&table, "%s", rate_of(p->gbps).text);
        table_cell(&table, "%.3g", p->job.sec / 3600);
        table_cell(&table, "%.1f", 100 * p->job.efficiency);
        table_cell(&table, "%s", figure_duration(p->job.start_sec).text);
        table_cell(&table, "%s", figure_duration(p->job.steps_sec).text);
        table_cell(&table, "%s", figure_duration(p->job.eval_sec).text);
        table_cell(&table, "%s", figure_duration(p->job.checkpoint_sec).text);
    }
    fputs("\nThe whole job: efficiency is the time of steps that never wait / the time of the job.\n\n", out);
    err_t err = table_print(&table, out);
    table_free(&table);
    return err;
}

/* "*" of the table, once for each reason. */
static void print_reasons(const forecast_t *f, FILE *out)
{
    const char *seen[FORECAST_MAX_REASONS];
    int n = 0;
    for (int i = 0; i < f->n_points; i++)
        for (int r = 0; r < f->points[i].n_reasons; r++) {
            int s = 0;
            while (s < n && strcmp(seen[s], f->points[i].reasons[r]) != 0) s++;
            if (s == n) seen[n++] = f->points[i].reasons[r];
        }
    for (int s = 0; s < n; s++)
        fprintf(out, "%s%s%s", s ? "; " : "* at least ±8 points: ", seen[s], s == n - 1 ? "\n" : "");
}

err_t forecast_print(const forecast_t *f, FILE *out)
{
    fprintf(out, "forecast of %s, %.4g samples per rank\n\n", f->model, f->batch);
    TRY(print_inputs(f, out));
    fputs("\nefficiency: of ranks that never wait for one another. Shares are of the step.\n\n", out);
    TRY(print_points(f, out));
    print_reasons(f, out);
    if (f->options->job) TRY(print_job(f, out));
    if (f->n_notes) fputs("\n", out);
    for (int i = 0; i < f->n_notes; i++) fprintf(out, "note: %s\n", f->notes[i]);
    return ERR_OK;
}

static void json_inputs(const forecast_t *f, json_t *j)
{
    json_array_begin(j, "inputs");
    for (int i = 0; i < f->n_inputs; i++) {
        json_object_begin(j, NULL);
        json_string(j, "name", f->inputs[i].name);
        json_string(j, "origin", forecast_origin_names[f->inputs[i].origin]);
        json_string(j, "from", f->inputs[i].from);
        json_string(j, "value", f->inputs[i].value);
        json_object_end(j);
    }
    json_array_end(j);
}

static void json_point(const forecast_t *f, const forecast_point_t *p, json_t *j)
{
    json_object_begin(j, NULL);
    json_real(j, "hosts", p->n_hosts);
    json_real(j, "ranks", p->n_ranks);
    json_real(j, "gbps", p->gbps);
    json_real(j, "step_sec", p->step_sec);
    json_real(j, "step_low_sec", p->step_low);
    json_real(j, "step_high_sec", p->step_high);
    json_real(j, "images_per_sec", p->images_per_sec);
    json_real(j, "efficiency", p->efficiency);
    json_real(j, "efficiency_low", p->efficiency_low);
    json_real(j, "efficiency_high", p->efficiency_high);
    json_string(j, "limit", p->limit);
    json_real(j, "compute_sec", p->part_sec[STEP_COMPUTE]);
    json_real(j, "slowest_rank_sec", p->part_sec[STEP_SLOWEST]);
    json_real(j, "latency_sec", p->part_sec[STEP_LATENCY]);
    json_real(j, "bandwidth_sec", p->part_sec[STEP_BANDWIDTH]);
    json_array_begin(j, "reasons");
    for (int i = 0; i < p->n_reasons; i++) json_string(j, NULL, p->reasons[i]);
    json_array_end(j);
    if (f->options->job) {
        json_real(j, "job_sec", p->job.sec);
        json_real(j, "job_efficiency", p->job.efficiency);
    }
    json_object_end(j);
}

void forecast_json(const forecast_t *f, json_t *j)
{
    json_object_begin(j, NULL);
    json_string(j, "record", "forecast");
    json_int(j, "schema", 1);
    json_string(j, "model", f->model);
    json_real(j, "batch", f->batch);
    json_inputs(f, j);
    json_array_begin(j, "points");
    for (int i = 0; i < f->n_points; i++) json_point(f, &f->points[i], j);
    json_array_end(j);
    json_array_begin(j, "notes");
    for (int i = 0; i < f->n_notes; i++) json_string(j, NULL, f->notes[i]);
    json_array_end(j);
    json_object_end(j);
}
