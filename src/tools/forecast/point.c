/* SPDX-License-Identifier: MIT */
/* One point of a forecast: its median, its interval, what limits it. */
#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "base/stats.h"
#include "tools/forecast/forecast.h"

enum { DRAW_SAMPLES = 256 };
#define LIMIT_SHARE 0.05 /* of a step, from which waiting limits */

typedef struct draws {
    double step_sec[FORECAST_DRAWS], efficiency[FORECAST_DRAWS];
} draws_t;

/* B of the fit at another line rate; without a recorded one, --gbps is what B reaches. */
static double rate_factor(const forecast_base_t *base, double gbps)
{
    const network_t *n = &base->fit.network;
    if (isnan(gbps)) return 1;
    if (base->line_gbps > 0) return gbps / base->line_gbps;
    return gbps * 1e9 / 8 * n->range[n->n_ranges - 1].byte_sec;
}

/* A bootstrap sample of the spread: ascending, mean 1. */
static void resample(const step_model_t *model, rng_t *rng, double *out, int64_t n)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++) {
        out[i] = model->spread[rng_below(rng, (uint32_t)model->n_spread)];
        sum += out[i];
    }
    stats_sort(out, n);
    for (int64_t i = 0; i < n; i++) out[i] *= (double)n / sum;
}

static void draw_points(const forecast_base_t *base, const step_setting_t *setting, double factor,
                        draws_t *out)
{
    double spread[DRAW_SAMPLES];
    step_setting_t s = *setting;
    step_model_t model = base->model;
    rng_t rng = rng_new((uint64_t)base->seed, RNG_BOOTSTRAP, (uint64_t)setting->n_hosts);
    model.spread = spread;
    model.n_spread = base->model.n_spread < DRAW_SAMPLES ? base->model.n_spread : DRAW_SAMPLES;
    for (int i = 0; i < FORECAST_DRAWS; i++) {
        network_t network = fit_draw(&base->fit, &rng);
        const double error = exp(base->fit.residual * rng_normal(&rng));
        network = network_scaled(&network, factor);
        for (int r = 0; r < network.n_ranges; r++) {
            network.range[r].alpha_sec *= error;
            network.range[r].byte_sec *= error;
        }
        s.network = &network;
        resample(&base->model, &rng, spread, model.n_spread);
        const double run = exp(FORECAST_RUN_SPREAD * rng_normal(&rng)), step = step_time(&model, &s).sec;
        out->step_sec[i] = run * step;
        out->efficiency[i] = step_alone_sec(&model) / step;
    }
    stats_sort(out->step_sec, FORECAST_DRAWS);
    stats_sort(out->efficiency, FORECAST_DRAWS);
}

static const char *limit_of(const step_time_t *time)
{
    int worst = STEP_SLOWEST;
    for (int p = STEP_SLOWEST; p < STEP_N_PARTS; p++)
        if (time->part_sec[p] > time->part_sec[worst]) worst = p;
    return step_part_names[time->sec - time->part_sec[STEP_COMPUTE] < LIMIT_SHARE * time->sec ? STEP_COMPUTE
                                                                                              : worst];
}

static void find_reasons(const forecast_base_t *base, double n_hosts, double factor, forecast_point_t *out)
{
    if (n_hosts > FORECAST_FAR * base->fit.max_hosts)
        out->reasons[out->n_reasons++] = "more than 4 times the measured hosts";
    if (fabs(factor - 1) > 0.05) out->reasons[out->n_reasons++] = "a network that was not measured";
    if (base->assumed_times) out->reasons[out->n_reasons++] = "layer times are assumed";
}

/* Widens the interval to ± FORECAST_FLOOR; the step follows. */
static void apply_floor(const step_model_t *model, forecast_point_t *p)
{
    const double alone = step_alone_sec(model);
    p->efficiency_low = fmax(fmin(p->efficiency_low, p->efficiency - FORECAST_FLOOR), 0.01 * p->efficiency);
    p->efficiency_high = fmin(fmax(p->efficiency_high, p->efficiency + FORECAST_FLOOR), 1);
    p->step_low = fmin(p->step_low, alone / p->efficiency_high);
    p->step_high = fmax(p->step_high, alone / p->efficiency_low);
}

err_t forecast_point(const forecast_base_t *base, double n_hosts, double gbps, forecast_point_t *out)
{
    const double factor = rate_factor(base, gbps);
    const network_t network = network_scaled(&base->fit.network, factor);
    step_setting_t setting = base->setting;
    draws_t *draws;
    TRY(mem_new(sizeof *draws, "draws of a forecast", &draws));
    setting.network = &network;
    setting.n_hosts = n_hosts;
    setting.n_ranks = n_hosts * base->ranks_per_host;
    const step_time_t time = step_time(&base->model, &setting);
    draw_points(base, &setting, factor, draws);
    *out = (forecast_point_t){.n_hosts = n_hosts,
                              .n_ranks = setting.n_ranks,
                              .gbps = gbps,
                              .step_sec = time.sec,
                              .step_low = stats_quantile(draws->step_sec, FORECAST_DRAWS, 0.05),
                              .step_high = stats_quantile(draws->step_sec, FORECAST_DRAWS, 0.95),
                              .efficiency = step_alone_sec(&base->model) / time.sec,
                              .efficiency_low = stats_quantile(draws->efficiency, FORECAST_DRAWS, 0.05),
                              .efficiency_high = stats_quantile(draws->efficiency, FORECAST_DRAWS, 0.95),
                              .images_per_sec = base->batch * setting.n_ranks / time.sec,
                              .limit = limit_of(&time)};
    memcpy(out->part_sec, time.part_sec, sizeof out->part_sec);
    /* Few draws, and an algorithm that may be another, can leave the median outside. */
    out->step_low = fmin(out->step_low, time.sec), out->step_high = fmax(out->step_high, time.sec);
    out->efficiency_low = fmin(out->efficiency_low, out->efficiency);
    out->efficiency_high = fmax(out->efficiency_high, out->efficiency);
    find_reasons(base, n_hosts, factor, out);
    if (out->n_reasons > 0) apply_floor(&base->model, out);
    mem_free(&draws);
    return ERR_OK;
}
