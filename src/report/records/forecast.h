/* SPDX-License-Identifier: MIT */
/* A forecast (`dptrain forecast --out`) as records hold it (docs/records.md). */
#ifndef REPORT_RECORDS_FORECAST_H
#define REPORT_RECORDS_FORECAST_H

#include "base/table.h"
#include "report/records/report.h"

enum { REPORT_FORECAST_MAX_REASONS = 4 };

/* Texts are interned, as below. */
typedef struct report_forecast_input {
    const char *name, *origin, *from, *value;
} report_forecast_input_t;

typedef struct report_forecast_point {
    double hosts, ranks, gbps; /* gbps NAN: the measured network */
    double step_sec, images_per_sec, efficiency, low, high;
    double job_sec, job_efficiency; /* NAN: not asked for */
    const char *limit;
    const char *reasons[REPORT_FORECAST_MAX_REASONS];
    int n_reasons;
} report_forecast_point_t;

typedef struct report_forecast report_forecast_t;
struct report_forecast {
    const char *model;
    double batch;
    report_forecast_input_t *inputs;
    report_forecast_point_t *points;
    int n_inputs, n_points, file;
    bool has_job;
    report_forecast_t *next;
};

/* Points and inputs as tables, and why intervals are wide as a sentence ("": they are not). Cells are in the arena. */
err_t report_forecast_table(arena_t *arena, const report_forecast_t *forecast, table_t *out);
err_t report_forecast_inputs(arena_t *arena, const report_forecast_t *forecast, table_t *out);
err_t report_forecast_reasons(arena_t *arena, const report_forecast_t *forecast, const char **out);

/* "measured" or "100 Gbit/s". */
err_t report_forecast_network(arena_t *arena, double gbps, const char **out);

#endif
