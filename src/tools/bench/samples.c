/* SPDX-License-Identifier: MIT */
/* Stores the samples of a measurement with the load of each batch, selects those that count, and computes
 * their statistics. */
#include "tools/bench/samples.h"

#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "base/stats.h"

err_t samples_new(const bench_parts_t *parts, bool keep_all, samples_t *out)
{
    *out = (samples_t){.keep_all = keep_all, .parts_of = *parts};
    ASSERT(parts->n <= BENCH_MAX_PARTS);
    TRY(mem_new_array(BENCH_MAX_SAMPLES, sizeof *out->sec, "samples", &out->sec));
    TRY(mem_new_array(BENCH_MAX_SAMPLES, sizeof *out->batch, "samples", &out->batch));
    TRY(mem_new_array(BENCH_MAX_SAMPLES, sizeof *out->loads, "samples", &out->loads));
    TRY(mem_new_array(BENCH_MAX_SAMPLES, sizeof *out->probe_sec, "samples", &out->probe_sec));
    TRY(mem_new_array(BENCH_MAX_SAMPLES, sizeof *out->batch_sec, "samples", &out->batch_sec));
    for (int part = 0; part < parts->n; part++)
        TRY(mem_new_array(BENCH_MAX_SAMPLES, sizeof *out->sec, "samples", &out->parts[part]));
    mem_touch(out->sec, BENCH_MAX_SAMPLES * sizeof *out->sec);
    return ERR_OK;
}

void samples_free(samples_t *s)
{
    mem_free(&s->sec);
    mem_free(&s->batch);
    mem_free(&s->loads);
    mem_free(&s->probe_sec);
    mem_free(&s->batch_sec);
    for (int part = 0; part < BENCH_MAX_PARTS; part++) mem_free(&s->parts[part]);
}

int64_t samples_disturbed(const samples_t *s)
{
    int64_t n = 0;
    for (int64_t i = 0; i < s->n; i++) n += s->loads[s->batch[i]] != 0;
    return n;
}

static bool all_samples_count(const samples_t *s)
{
    return s->keep_all || s->n - samples_disturbed(s) < BENCH_MIN_SAMPLES;
}

int64_t samples_sorted(const samples_t *s, double *out)
{
    bool all = all_samples_count(s);
    int64_t n = 0;
    for (int64_t i = 0; i < s->n; i++)
        if (all || !s->loads[s->batch[i]]) out[n++] = s->sec[i];
    stats_sort(out, n);
    return n;
}

bool samples_are_precise(const double *sorted, int64_t n, double precision)
{
    double low, high, median = stats_quantile(sorted, n, 0.5);
    stats_median_interval(sorted, n, &low, &high);
    return (high - low) / 2 <= precision * median;
}

/* Over the batches that count. Overwrites `sorted`. */
static double median_probe_sec(const samples_t *s, bool all, double *sorted)
{
    int64_t n = 0;
    for (int i = 0; i < s->n_batches; i++)
        if (s->probe_sec[i] > 0 && (all || !s->loads[i])) sorted[n++] = s->probe_sec[i];
    return stats_median(sorted, n);
}

/* Drops samples that do not count and moves the arrays to the result. */
static void move_to_result(samples_t *s, bool all, bench_result_t *out)
{
    int64_t n = 0;
    for (int64_t i = 0; i < s->n; i++) {
        unsigned loads = (unsigned)s->loads[s->batch[i]];
        out->loads |= loads;
        if (loads && !all) continue;
        s->sec[n] = s->sec[i];
        for (int part = 0; part < s->parts_of.n; part++) s->parts[part][n] = s->parts[part][i];
        s->batch[n++] = s->batch[i];
    }
    out->n = n;
    out->sec = s->sec;
    out->batch = s->batch;
    memcpy(out->parts, s->parts, sizeof out->parts);
    out->parts_of = s->parts_of;
    out->n_batches = s->n_batches;
    s->sec = NULL;
    s->batch = NULL;
    memset(s->parts, 0, sizeof s->parts);
}

void samples_summarise(samples_t *s, double precision, double *sorted, bench_result_t *out)
{
    bool all = all_samples_count(s);
    out->n_disturbed = samples_disturbed(s);
    out->disturbed = out->n_disturbed > 0 && all;
    out->clock_sec = median_probe_sec(s, all, sorted);
    int64_t n = samples_sorted(s, sorted);
    move_to_result(s, all, out);
    out->mean = 0;
    for (int64_t i = 0; i < n; i++) out->mean += sorted[i] / (double)n;
    double squares = 0;
    for (int64_t i = 0; i < n; i++) squares += (sorted[i] - out->mean) * (sorted[i] - out->mean);
    out->cv = n > 1 ? sqrt(squares / (double)(n - 1)) / out->mean : NAN;
    out->min = stats_quantile(sorted, n, 0);
    out->p50 = stats_quantile(sorted, n, 0.5);
    out->p95 = stats_quantile(sorted, n, 0.95);
    out->p99 = stats_quantile(sorted, n, 0.99);
    out->max = stats_quantile(sorted, n, 1);
    stats_median_interval(sorted, n, &out->ci_low, &out->ci_high);
    out->conclusive = n > 0 && samples_are_precise(sorted, n, precision);
}
