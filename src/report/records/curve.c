/* SPDX-License-Identifier: MIT */
/* Collects and reduces a run's losses. report/html/train.c draws them. */
#include "report/records/curve.h"

#include <math.h>

#include "base/mem.h"
#include "base/stats.h"

typedef struct curve_losses {
    int64_t n;
    struct {
        int64_t step;
        double loss;
    } at[];
} curve_losses_t;

err_t curve_add(curve_t *curve, int64_t step, double loss)
{
    curve_losses_t *losses = curve->losses;
    while (losses && losses->n > 0 && losses->at[losses->n - 1].step >= step) losses->n--;
    size_t n_bytes = sizeof *losses + (size_t)(losses ? losses->n + 1 : 1) * sizeof *losses->at;
    TRY(mem_grow((int64_t)n_bytes, 1, "losses", &curve->losses));
    losses = curve->losses;
    losses->at[losses->n].step = step;
    losses->at[losses->n++].loss = loss;
    return ERR_OK;
}

/* Adds the point of an interval of steps. *i: its first loss; on return, that of the next interval. */
static void add_interval(curve_t *curve, int64_t *i, double end, double *sorted, curve_point_t *at)
{
    const curve_losses_t *losses = curve->losses;
    int64_t n = 0, first = losses->at[*i].step, last = first;
    for (; *i < losses->n && (double)losses->at[*i].step < end; ++*i) {
        last = losses->at[*i].step;
        if (isfinite(losses->at[*i].loss))
            sorted[n++] = losses->at[*i].loss;
        else
            curve->n_invalid++;
    }
    if (n == 0) return;
    stats_sort(sorted, n);
    at[curve->n++] = (curve_point_t){.step = ((double)first + (double)last) / 2,
                                     .low = sorted[0],
                                     .median = stats_quantile(sorted, n, 0.5),
                                     .high = sorted[n - 1]};
}

err_t curve_finish(curve_t *curve, arena_t *arena)
{
    const curve_losses_t *losses = curve->losses;
    curve_point_t *at = NULL;
    double *sorted;
    if (!losses) return ERR_OK;
    double first = (double)losses->at[0].step, last = (double)losses->at[losses->n - 1].step;
    double range = last - first + 1, length = range / fmin(range, CURVE_MAX);
    TRY(arena_new(arena, CURVE_MAX * sizeof *at, &at));
    TRY(mem_new_array(losses->n, sizeof *sorted, "losses", &sorted));
    curve->n = 0;
    curve->n_invalid = 0;
    for (int64_t i = 0; i < losses->n;) {
        double k = floor(((double)losses->at[i].step - first) / length);
        double end = first + (k + 1) * length;
        /* Steps beyond 2^53 are not distinct as doubles. */
        if (curve->n == CURVE_MAX || !(end > (double)losses->at[i].step)) break;
        add_interval(curve, &i, end, sorted, at);
    }
    curve->at = at;
    mem_free(&sorted);
    curve_free(curve);
    return ERR_OK;
}

void curve_free(curve_t *curve)
{
    mem_free(&curve->losses);
}
