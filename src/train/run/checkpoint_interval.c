/* SPDX-License-Identifier: MIT */
/* When checkpoints are due by the clock, and the options that say so. Writing them is left to state.c. */
#include "train/run/checkpoint_interval.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/figure.h"
#include "base/stats.h"

bool duration_parse(const char *text, double *out_sec)
{
    static const struct {
        char unit;
        double sec;
    } units[] = {{'s', 1}, {'m', 60}, {'h', 3600}, {'d', 86400}};
    char *end;
    const double value = strtod(text, &end);
    if (end == text || !(value > 0) || !isfinite(value) || !*end || end[1]) return false;
    for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
        if (*end != units[i].unit) continue;
        *out_sec = value * units[i].sec;
        return true;
    }
    return false;
}

static err_t parse_every(train_options_t *o)
{
    const char *text = o->checkpoint_every;
    char *end;
    o->checkpoint_steps = 0;
    o->checkpoint_sec = 0;
    o->checkpoint_auto = text && strcmp(text, "auto") == 0;
    if (!text || o->checkpoint_auto) return ERR_OK;
    double value = strtod(text, &end);
    bool minutes = *end == 'm' && end[1] == '\0';
    bool whole = value < 1e15 && (double)(int64_t)value >= value;
    if (end == text || !(value > 0) || (*end && !minutes) || (!minutes && !whole))
        RAISE(ERR_USAGE,
              "invalid --checkpoint-every '%s': expected steps such as 500, minutes such as 10m, or auto",
              text);
    if (minutes)
        o->checkpoint_sec = 60 * value;
    else
        o->checkpoint_steps = (int64_t)value;
    return ERR_OK;
}

err_t checkpoint_interval_parse(train_options_t *o)
{
    TRY(parse_every(o));
    o->mtbf_sec = 0;
    if (o->mtbf && !duration_parse(o->mtbf, &o->mtbf_sec))
        RAISE(ERR_USAGE, "invalid --mtbf '%s': expected a duration such as 90m, 6h or 2d", o->mtbf);
    if (o->checkpoint_auto && !o->mtbf)
        RAISE(ERR_USAGE,
              "--checkpoint-every auto requires --mtbf, the mean time between failures of the job's hosts, "
              "such as 6h");
    /* A resumed run may have it from its checkpoint. */
    if (!o->checkpoint_auto && train_options_given(o, "mtbf"))
        RAISE(ERR_USAGE, "--mtbf requires --checkpoint-every auto");
    return ERR_OK;
}

double young_interval_sec(double cost_sec, double mtbf_sec)
{
    return fmax(fmin(sqrt(2 * cost_sec * mtbf_sec), mtbf_sec), cost_sec);
}

void checkpoint_interval_add(checkpoint_costs_t *costs, double cost_sec, double mtbf_sec)
{
    double sorted[CHECKPOINT_COSTS];
    const int64_t n = costs->n + 1 < CHECKPOINT_COSTS ? costs->n + 1 : CHECKPOINT_COSTS;
    costs->sec[costs->n++ % CHECKPOINT_COSTS] = fmax(cost_sec, 1e-6);
    memcpy(sorted, costs->sec, (size_t)n * sizeof *sorted);
    costs->usual_sec = stats_median(sorted, n);
    costs->interval_sec = young_interval_sec(costs->usual_sec, mtbf_sec);
}

bool checkpoint_interval_due(const trainer_t *t)
{
    const train_options_t *o = t->options;
    const checkpoint_costs_t *costs = &t->saving.costs;
    if (o->checkpoint_auto && costs->n == 0) return t->steps.n_done >= RATE_WARMUP_STEPS && !costs->begun;
    const double interval_sec = o->checkpoint_auto ? costs->interval_sec : o->checkpoint_sec;
    return interval_sec > 0 && clock_sec() - t->saving.last_sec >= interval_sec;
}

void checkpoint_interval_text(const trainer_t *t, char out[CHECKPOINT_INTERVAL_TEXT_MAX])
{
    const checkpoint_costs_t *costs = &t->saving.costs;
    out[0] = '\0';
    if (!t->options->checkpoint_auto) return;
    if (costs->n > 0)
        snprintf(out, CHECKPOINT_INTERVAL_TEXT_MAX,
                 "every %s (auto: a checkpoint stops training for %s, a failure is expected every %s)",
                 figure_time(costs->interval_sec).text, figure_time(costs->usual_sec).text, t->options->mtbf);
    else
        snprintf(out, CHECKPOINT_INTERVAL_TEXT_MAX,
                 "auto, for a failure every %s: a checkpoint after %d steps measures the cost",
                 t->options->mtbf, RATE_WARMUP_STEPS);
}
