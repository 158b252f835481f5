/* SPDX-License-Identifier: MIT */
/* When checkpoints are due by the clock. Writing them is left to state.c. */
#include "train/run/checkpoint_interval.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/figure.h"
#include "base/stats.h"

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
