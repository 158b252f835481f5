/* SPDX-License-Identifier: MIT */
/* Sums the costs of steady steps, and keeps their rates. Measuring a step is left to step.c. */
#include "train/run/telemetry.h"

#include <math.h>

#include "base/mem.h"
#include "base/stats.h"

err_t telemetry_open(telemetry_t *t)
{
    TRY(mem_new_array(RATE_RING, sizeof *t->step_rates, "step times", &t->step_rates));
    mem_touch(t->step_rates, RATE_RING * sizeof *t->step_rates);
    return ERR_OK;
}

void telemetry_close(telemetry_t *t)
{
    mem_free(&t->step_rates);
}

void telemetry_add(telemetry_t *t, const step_cost_t *cost, int64_t n, bool whole)
{
    /* Ragged batches are left out of the moving average. */
    if (t->smooth_step_sec <= 0) t->smooth_step_sec = cost->total;
    if (whole) t->smooth_step_sec += (cost->total - t->smooth_step_sec) / 12;
    if (++t->n_first_steps <= RATE_WARMUP_STEPS) {
        cpu_watch_restart(&t->cpu_watch);
        return;
    }
    t->steady.data += cost->data;
    t->steady.forward += cost->forward;
    t->steady.backward += cost->backward;
    t->steady.comm += cost->comm;
    t->steady.optimizer += cost->optimizer;
    t->steady.total += cost->total;
    t->n_samples += n;
    t->n_allocations += cost->n_allocations;
    t->n_page_faults += cost->n_page_faults;
    t->cpu_sec += cost->cpu;
    t->boxes_sec += cost->boxes;
    t->masks_sec += cost->masks;
    if (whole) t->step_rates[t->n_rates++ % RATE_RING] = (double)n / cost->total;
}

double telemetry_rate(const telemetry_t *t)
{
    return t->steady.total > 0 ? (double)t->n_samples / t->steady.total : NAN;
}

double telemetry_median_rate(const telemetry_t *t)
{
    int64_t n = t->n_rates < RATE_RING ? t->n_rates : RATE_RING;
    return stats_median(t->step_rates, n);
}
