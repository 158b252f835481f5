/* SPDX-License-Identifier: MIT */
/* Reads the record of a forecast. */
#include <math.h>
#include <string.h>

#include "report/records/forecast.h"
#include "report/records/records.h"

static err_t read_inputs(const report_input_t *in, const json_value_t *list, report_forecast_t *f)
{
    TRY(arena_new(&in->report->arena, (size_t)(list->n + 1) * sizeof *f->inputs, &f->inputs));
    for (const json_value_t *at = list->first; at; at = at->next) {
        report_forecast_input_t *input = &f->inputs[f->n_inputs++];
        TRY(report_copy_text(in->report, at, "name", &input->name));
        TRY(report_copy_text(in->report, at, "origin", &input->origin));
        TRY(report_copy_text(in->report, at, "from", &input->from));
        TRY(report_copy_text(in->report, at, "value", &input->value));
    }
    return ERR_OK;
}

static err_t read_reasons(const report_input_t *in, const json_value_t *list, report_forecast_point_t *p)
{
    const json_value_t *at = list && list->kind == JSON_ARRAY ? list->first : NULL;
    for (; at && p->n_reasons < REPORT_FORECAST_MAX_REASONS; at = at->next)
        if (at->kind == JSON_STRING)
            TRY(intern_text(&in->report->words, at->text, &p->reasons[p->n_reasons++]));
    return ERR_OK;
}

static err_t read_points(const report_input_t *in, const json_value_t *list, report_forecast_t *f)
{
    TRY(arena_new(&in->report->arena, (size_t)(list->n + 1) * sizeof *f->points, &f->points));
    for (const json_value_t *at = list->first; at; at = at->next) {
        report_forecast_point_t *p = &f->points[f->n_points++];
        *p = (report_forecast_point_t){.hosts = report_get_real(at, "hosts"),
                                       .ranks = report_get_real(at, "ranks"),
                                       .gbps = report_get_real(at, "gbps"),
                                       .step_sec = report_get_real(at, "step_sec"),
                                       .images_per_sec = report_get_real(at, "images_per_sec"),
                                       .efficiency = report_get_real(at, "efficiency"),
                                       .low = report_get_real(at, "efficiency_low"),
                                       .high = report_get_real(at, "efficiency_high"),
                                       .job_sec = report_get_real(at, "job_sec"),
                                       .job_efficiency = report_get_real(at, "job_efficiency")};
        if (!(p->hosts > 0) || !isfinite(p->efficiency) || !isfinite(p->low) || !isfinite(p->high))
            RAISE(ERR_DATA, "forecast record: point %d has no hosts or efficiency", f->n_points);
        f->has_job |= isfinite(p->job_sec);
        TRY(report_copy_text(in->report, at, "limit", &p->limit));
        TRY(read_reasons(in, json_get(at, "reasons"), p));
    }
    return ERR_OK;
}

static err_t read_forecast(const report_input_t *in)
{
    report_t *report = in->report;
    const json_value_t *inputs = json_get(in->record, "inputs"), *points = json_get(in->record, "points");
    report_forecast_t *f = NULL;
    bool newer = false;
    TRY(report_check_schema(in, &newer));
    if (newer) return ERR_OK;
    if (!inputs || inputs->kind != JSON_ARRAY || !points || points->kind != JSON_ARRAY || points->n == 0)
        RAISE(ERR_DATA, "forecast record without points");
    TRY(arena_new(&report->arena, sizeof *f, &f));
    *f = (report_forecast_t){.file = in->file_index, .batch = report_get_real(in->record, "batch")};
    TRY(report_copy_text(report, in->record, "model", &f->model));
    TRY(read_inputs(in, inputs, f));
    TRY(read_points(in, points, f));
    if (report->last_forecast)
        report->last_forecast->next = f;
    else
        report->forecasts = f;
    report->last_forecast = f;
    in->file->n_records++;
    return ERR_OK;
}

record_reader_t forecast_record_reader(const char *kind)
{
    return strcmp(kind, "forecast") == 0 ? read_forecast : NULL;
}
