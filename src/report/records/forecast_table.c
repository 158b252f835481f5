/* SPDX-License-Identifier: MIT */
/* Tables and texts of a forecast, for all output formats. */
#include "report/records/forecast.h"

#include <math.h>
#include <string.h>

#include "base/figure.h"

err_t report_forecast_network(arena_t *arena, double gbps, const char **out)
{
    *out = "measured";
    return isfinite(gbps) ? arena_format(arena, out, "%s Gbit/s", figure_number(gbps).text) : ERR_OK;
}

static err_t put_point(arena_t *arena, const report_forecast_point_t *p, bool has_job, const char **cell)
{
    TRY(arena_format(arena, cell, "%s", figure_number(p->hosts).text));
    TRY(arena_format(arena, ++cell, "%s", figure_number(p->ranks).text));
    TRY(report_forecast_network(arena, p->gbps, ++cell));
    TRY(arena_format(arena, ++cell, "%s", figure_time(p->step_sec).text));
    TRY(arena_format(arena, ++cell, "%s", figure_number(p->images_per_sec).text));
    TRY(arena_format(arena, ++cell, "%.1f", 100 * p->efficiency));
    TRY(arena_format(arena, ++cell, "%.1f to %.1f%s", 100 * p->low, 100 * p->high, p->n_reasons ? "*" : ""));
    *++cell = p->limit;
    if (!has_job) return ERR_OK;
    TRY(arena_format(arena, ++cell, "%s", figure_number(p->job_sec / 3600).text));
    return arena_format(arena, ++cell, "%.1f", 100 * p->job_efficiency);
}

err_t report_forecast_table(arena_t *arena, const report_forecast_t *f, table_t *out)
{
    *out = (table_t){.title = "forecast",
                     .caption = "efficiency: of ranks that never wait for one another",
                     .columns = {{"hosts"},
                                 {"ranks"},
                                 {"network", true},
                                 {"step"},
                                 {"images/s"},
                                 {"efficiency %"},
                                 {"90 % interval", true},
                                 {"limited by", true},
                                 {"job hours"},
                                 {"job efficiency %"}},
                     .n_columns = f->has_job ? 10 : 8,
                     .n_rows = f->n_points};
    const size_t n_columns = (size_t)out->n_columns;
    TRY(arena_new(arena, sizeof *out->cells * n_columns * (size_t)f->n_points, &out->cells));
    for (int i = 0; i < f->n_points; i++)
        TRY(put_point(arena, &f->points[i], f->has_job, out->cells + n_columns * (size_t)i));
    return ERR_OK;
}

err_t report_forecast_inputs(arena_t *arena, const report_forecast_t *f, table_t *out)
{
    *out = (table_t){.title = "inputs",
                     .caption = "",
                     .columns = {{"input", true}, {"origin", true}, {"from", true}, {"value", true}},
                     .n_columns = 4,
                     .n_rows = f->n_inputs};
    TRY(arena_new(arena, sizeof *out->cells * 4 * (size_t)(f->n_inputs + 1), &out->cells));
    for (int i = 0; i < f->n_inputs; i++) {
        const report_forecast_input_t *input = &f->inputs[i];
        const char *const row[] = {input->name, input->origin, input->from, input->value};
        memcpy(out->cells + (ptrdiff_t)4 * i, row, sizeof row);
    }
    return ERR_OK;
}

err_t report_forecast_reasons(arena_t *arena, const report_forecast_t *f, const char **out)
{
    *out = "";
    for (int i = 0; i < f->n_points; i++)
        for (int r = 0; r < f->points[i].n_reasons; r++) {
            const char *reason = f->points[i].reasons[r];
            if (strstr(*out, reason)) continue;
            TRY(arena_format(arena, out, "%s%s%s", *out, **out ? "; " : "* at least ±8 points: ", reason));
        }
    return ERR_OK;
}
