/* SPDX-License-Identifier: MIT */
/* How a job scales, with an interval. The median is the closed form of step.h at the fitted values. The 90 % interval
 * comes from FORECAST_DRAWS draws, each with another network (fit_draw), its residual error, resampled steps (bootstrap:
 * Efron 1979) and the spread between runs of the same binary, 2 % as in report compare. It is at least ± 8 points of
 * efficiency beyond 4 times the measured hosts, on a network that was not measured, and where layer times are assumed;
 * the reasons say so. Not collective. */
#ifndef TOOLS_FORECAST_FORECAST_H
#define TOOLS_FORECAST_FORECAST_H

#include <stdio.h>

#include "base/json.h"
#include "tools/forecast/job.h"
#include "tools/forecast/layers.h"
#include "tools/forecast/measured.h"

enum {
    FORECAST_MAX_HOSTS = 16,
    FORECAST_MAX_RATES = 8,
    FORECAST_MAX_INPUTS = 24,
    FORECAST_MAX_NOTES = 12,
    FORECAST_MAX_REASONS = 4,
    FORECAST_DRAWS = 200
};
#define FORECAST_FLOOR      0.08 /* of efficiency */
#define FORECAST_FAR        4    /* times the measured hosts */
#define FORECAST_RUN_SPREAD 0.02

typedef enum forecast_origin { ORIGIN_MEASURED, ORIGIN_GIVEN, ORIGIN_ASSUMED } forecast_origin_t;
extern const char *const forecast_origin_names[]; /* "measured", "given", "assumed" */

/* 0 and NULL: not given. */
typedef struct forecast_options {
    const char *model, *hosts, *rates, *wire, *overlap, *algorithm;
    int64_t bucket_bytes, batch, input_size, seed, samples;
    double gflops, epochs;
    bool job;
} forecast_options_t;

/* Texts are in the forecast's arena. */
typedef struct forecast_input {
    const char *name, *value, *from;
    forecast_origin_t origin;
} forecast_input_t;

typedef struct forecast_point {
    double n_hosts, n_ranks;
    double gbps; /* NAN: the measured network */
    double step_sec, step_low, step_high;
    double efficiency, efficiency_low, efficiency_high; /* of ranks that never wait */
    double images_per_sec;
    double part_sec[STEP_N_PARTS];
    const char *limit; /* the part that costs most; "compute" if all others cost less than 5 % of the step */
    const char *reasons[FORECAST_MAX_REASONS]; /* why the interval is at least ± 8 points */
    int n_reasons;
    job_time_t job; /* with options.job */
} forecast_point_t;

typedef struct forecast {
    const forecast_options_t *options;
    const char *model;
    forecast_input_t inputs[FORECAST_MAX_INPUTS];
    const char *notes[FORECAST_MAX_NOTES];
    forecast_point_t points[FORECAST_MAX_HOSTS * FORECAST_MAX_RATES];
    int n_inputs, n_notes, n_points;
    double batch; /* per rank */
    arena_t arena;
} forecast_t;

/* Fills *out, zeroed. Call forecast_free after an error, too. ERR_USAGE: options; ERR_DATA: records. */
err_t forecast_make(const report_t *report, const forecast_options_t *options, forecast_t *out);
void forecast_free(forecast_t *forecast);

/* What every point shares. For tests and forecast_make. */
typedef struct forecast_base {
    step_model_t model;
    fit_t fit;
    step_setting_t setting;                  /* without network, hosts and ranks */
    double ranks_per_host, batch, line_gbps; /* line_gbps: 0: unknown */
    bool assumed_times;
    int64_t seed;
} forecast_base_t;

/* One point: median, interval, limit; reasons are string constants.
 *
 *   gbps  NAN: the measured network */
err_t forecast_point(const forecast_base_t *base, double n_hosts, double gbps, forecast_point_t *out);

/* Printing. */
err_t forecast_print(const forecast_t *forecast, FILE *out);
/* The `forecast` record (docs/records.md). */
void forecast_json(const forecast_t *forecast, json_t *j);

#endif
