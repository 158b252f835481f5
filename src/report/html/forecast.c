/* SPDX-License-Identifier: MIT */
/* The section on forecasts: efficiency over hosts with its interval, a line per network. */
#include <math.h>

#include "report/html/parts.h"
#include "report/records/forecast.h"

bool html_has_forecast(const html_t *h)
{
    return h->in->now->forecasts != NULL;
}

static bool same_network(double a, double b)
{
    return a == b || (isnan(a) && isnan(b));
}

/* The points of one network, beginning with the i-th. */
static err_t network_series(html_t *h, const report_forecast_t *f, int i, int style, chart_series_t *out)
{
    double *columns[4];
    for (int c = 0; c < 4; c++) TRY(arena_new(&h->arena, sizeof(double) * (size_t)f->n_points, &columns[c]));
    *out = (chart_series_t){.style = style,
                            .x = columns[0],
                            .y = columns[1],
                            .low = columns[2],
                            .high = columns[3],
                            .band = true,
                            .markers = true};
    for (int p = i; p < f->n_points; p++) {
        const report_forecast_point_t *point = &f->points[p];
        if (!same_network(point->gbps, f->points[i].gbps)) continue;
        columns[0][out->n] = point->hosts;
        columns[1][out->n] = 100 * point->efficiency;
        columns[2][out->n] = 100 * point->low;
        columns[3][out->n++] = 100 * point->high;
    }
    return report_forecast_network(&h->arena, f->points[i].gbps, &out->name);
}

static err_t draw(html_t *h, const void *context)
{
    const report_forecast_t *f = context;
    chart_series_t series[CHART_MAX_SERIES];
    table_t table;
    int n = 0;
    for (int i = 0; i < f->n_points && n < CHART_MAX_SERIES; i++) {
        int before = 0;
        while (!same_network(f->points[before].gbps, f->points[i].gbps)) before++;
        if (before < i) continue;
        TRY(network_series(h, f, i, n, &series[n]));
        n++;
    }
    const chart_lines_t chart = {.about =
                                     "forecast efficiency over the number of hosts, with its 90 % interval",
                                 .x = {.title = "hosts", .scale = CHART_LOG2},
                                 .y = {.title = "efficiency, %", .scale = CHART_LINEAR, .from_zero = true},
                                 .series = series,
                                 .n_series = n,
                                 .reference = 100};
    TRY(report_forecast_table(&h->arena, f, &table));
    html_figure(h, f->model);
    html_lines(h, &chart);
    html_figure_end(h, "higher is better; bands are 90 % intervals. 100 %: ranks never wait for one another",
                    &table);
    return ERR_OK;
}

err_t html_forecast(html_t *h)
{
    html_section(h, "forecast", "Forecast", NULL);
    for (const report_forecast_t *f = h->in->now->forecasts; f; f = f->next) {
        const char *reasons;
        table_t inputs;
        TRY(html_figures(h, draw, f));
        TRY(report_forecast_reasons(&h->arena, f, &reasons));
        if (reasons[0]) html_note(h, reasons);
        TRY(report_forecast_inputs(&h->arena, f, &inputs));
        html_table(h, &inputs);
    }
    html_section_end(h);
    return ERR_OK;
}
