/* SPDX-License-Identifier: MIT */
/* The time line of a step. Where its numbers come from is left to forecast.c. */
#include "tools/forecast/step.h"

#include <math.h>
#include <stddef.h>

#include "tools/forecast/slowest.h"
#include "train/learn/bucket.h"

const char *const step_part_names[] = {"compute", "slowest rank", "latency", "bandwidth", NULL};

static double step_backward_sec(const step_model_t *model)
{
    double sum = 0;
    for (int i = 0; i < model->n_layers; i++) sum += model->layers[i].backward_sec;
    return sum;
}

double step_alone_sec(const step_model_t *model)
{
    return model->before_sec + step_backward_sec(model) + model->after_sec;
}

static double sum_sec(const step_setting_t *s, int64_t n_floats)
{
    const double n_bytes = (double)n_floats * s->bytes_per_float;
    return network_allreduce_sec(s->network, s->n_hosts, n_bytes, NULL) + n_bytes * s->host_byte_sec;
}

double step_sec(const step_model_t *model, const step_setting_t *s, double factor)
{
    double now = factor * model->before_sec, network_free = 0;
    int64_t n_begun = 0, n_ready = 0;
    for (int i = 0; i < model->n_layers; i++) {
        now += factor * model->layers[i].backward_sec;
        n_ready += model->layers[i].n_floats;
        const int64_t n = s->overlaps ? bucket_due(n_begun, n_ready, s->bucket_floats) : 0;
        if (n == 0) continue;
        network_free = fmax(network_free, now) + sum_sec(s, n);
        n_begun += n;
    }
    if (n_begun < model->n_gradients)
        network_free = fmax(network_free, now) + sum_sec(s, model->n_gradients - n_begun);
    return fmax(now, network_free) + factor * model->after_sec;
}

static double mean_step_sec(const step_model_t *model, const step_setting_t *setting)
{
    double sum = 0;
    for (int64_t i = 0; i < model->n_spread; i++) {
        const double p = slowest_probability(i, model->n_spread, setting->n_ranks);
        if (p > 1e-12) sum += p * step_sec(model, setting, model->spread[i]);
    }
    return sum;
}

step_time_t step_time(const step_model_t *model, const step_setting_t *setting)
{
    step_time_t out = {0};
    const double alone = step_alone_sec(model),
                 slowest = alone * slowest_mean(model->spread, model->n_spread, setting->n_ranks);
    network_t no_transfer = *setting->network;
    step_setting_t instant = *setting;
    for (int r = 0; r < no_transfer.n_ranges; r++) no_transfer.range[r].byte_sec = 0;
    instant.network = &no_transfer;
    instant.host_byte_sec = 0;
    const double latency = mean_step_sec(model, &instant);
    out.sec = mean_step_sec(model, setting);
    out.part_sec[STEP_COMPUTE] = alone;
    out.part_sec[STEP_SLOWEST] = slowest - alone;
    out.part_sec[STEP_LATENCY] = latency - slowest;
    out.part_sec[STEP_BANDWIDTH] = out.sec - latency;
    for (int p = STEP_SLOWEST; p < STEP_N_PARTS; p++) /* -0 of rounding */
        out.part_sec[p] = fmax(out.part_sec[p], 0);
    return out;
}
