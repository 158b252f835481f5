/* SPDX-License-Identifier: MIT */
/* Prepares the samples of one side for the bootstrap: logarithms, block length from the correlation of
 * neighbours, resampled medians. */
#include "report/stats/side.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

#include "base/mem.h"
#include "base/stats.h"

static const double max_correlation = 0.95;

static int by_value(const void *pa, const void *pb)
{
    const stats_value_t *a = pa, *b = pb;
    if (a->ln < b->ln || a->ln > b->ln) return a->ln < b->ln ? -1 : 1;
    return (a->batch > b->batch) - (a->batch < b->batch);
}

static err_t alloc_side(int n_starts, int64_t n_batches, int64_t n, stats_side_t *out)
{
    const char *what = "samples to compare";
    TRY(mem_new_array(n_starts + 1, sizeof *out->first_batch, what, &out->first_batch));
    TRY(mem_new_array(n_batches + 1, sizeof *out->first_value, what, &out->first_value));
    TRY(mem_new_array(n_starts, sizeof *out->start_weight, what, &out->start_weight));
    TRY(mem_new_array(n_starts, sizeof *out->share_below, what, &out->share_below));
    TRY(mem_new_array(n_batches, sizeof *out->batch_median, what, &out->batch_median));
    TRY(mem_new_array(n_batches, sizeof *out->weight, what, &out->weight));
    TRY(mem_new_array(n, sizeof *out->in_order, what, &out->in_order));
    return mem_new_array(n, sizeof *out->sorted, what, &out->sorted);
}

/* Median of in_order[from…to). Sorts into `room`. */
static double median_of(const stats_side_t *side, int64_t from, int64_t to, double *room)
{
    for (int64_t i = from; i < to; i++) room[i - from] = side->in_order[i];
    return stats_median(room, to - from);
}

/* Correlation of the medians of neighbouring batches about their start's mean, over all starts. Short series
 * underestimate it: (1 + 3ρ) / n is added (Marriott and Pope 1954). */
static double neighbour_correlation(const stats_side_t *side)
{
    double products = 0, squares = 0;
    int64_t n_products = 0, n_squares = 0;
    for (int s = 0; s < side->n_starts; s++) {
        double sum = 0;
        int64_t n = 0;
        int from = side->first_batch[s], to = side->first_batch[s + 1];
        for (int b = from; b < to; b++)
            if (side->first_value[b + 1] > side->first_value[b]) sum += side->batch_median[b], n++;
        for (int b = from; b < to; b++) {
            if (side->first_value[b + 1] == side->first_value[b]) continue;
            double off = side->batch_median[b] - sum / (double)n;
            squares += off * off, n_squares++;
            if (b + 1 == to || side->first_value[b + 2] == side->first_value[b + 1]) continue;
            products += off * (side->batch_median[b + 1] - sum / (double)n), n_products++;
        }
    }
    if (!(squares > 0) || n_products == 0) return 0;
    double correlation = products / (double)n_products / (squares / (double)n_squares);
    correlation += (1 + 3 * correlation) / ((double)n_squares / side->n_starts);
    return fmin(fmax(correlation, 0), max_correlation);
}

/* Block length with the least error of the bootstrap variance if batches are a first-order autoregression
 * (Politis and White 2004, sums in closed form). At least the cube root of the series' length, at most a
 * third of it. */
static int block_length(const stats_side_t *side)
{
    double rho = side->correlation, n = (double)side->n_batches / side->n_starts;
    double sums = 2 * rho / (1 - rho * rho);
    double length = cbrt(n) * fmax(1, cbrt(1.5 * sums * sums));
    return (int)fmax(1, fmin(round(length), floor(n / 3)));
}

static int64_t n_values(const stats_side_t *side, int start)
{
    return side->first_value[side->first_batch[start + 1]] - side->first_value[side->first_batch[start]];
}

/* The median of a mixture of starts lies between their medians, so the search can begin at the lowest of
 * them. */
static void find_central(stats_side_t *side)
{
    for (side->central = 0; side->central < side->n; side->central++) {
        const stats_value_t *v = &side->sorted[side->central];
        double one = 1.0 / (double)n_values(side, v->start), share = side->share_below[v->start] + one;
        if (share > 0.5 - one / 4) return;
        side->share_below[v->start] = share;
    }
}

/* Derives the rest from first_batch, first_value and in_order. */
static err_t finish_side(stats_side_t *side)
{
    double *room;
    TRY(mem_new_array(side->n, sizeof *room, "a batch", &room));
    for (int s = 0; s < side->n_starts; s++) {
        for (int b = side->first_batch[s]; b < side->first_batch[s + 1]; b++) {
            int64_t from = side->first_value[b], to = side->first_value[b + 1];
            side->weight[b] = 1.0 / (double)n_values(side, s);
            for (int64_t i = from; i < to; i++) side->sorted[i] = (stats_value_t){side->in_order[i], b, s};
            if (from == to) continue;
            side->batch_median[b] = median_of(side, from, to, room);
            side->n_kept++;
        }
    }
    mem_free(&room);
    if (side->n == 0) return ERR_OK;
    if (side->n > 1) qsort(side->sorted, (size_t)side->n, sizeof *side->sorted, by_value);
    find_central(side);
    side->centre = stats_side_median(side);
    side->correlation = neighbour_correlation(side);
    side->block = block_length(side);
    return ERR_OK;
}

err_t stats_side_new(const stats_run_t *runs, int n_runs, stats_side_t *out)
{
    int64_t n_batches = 0, n = 0, at = 0;
    *out = (stats_side_t){.n_starts = n_runs};
    for (int r = 0; r < n_runs; r++) {
        ASSERT(runs[r].n > 0);
        n_batches += runs[r].batch_n ? runs[r].n_batches : runs[r].n;
        n += runs[r].n;
    }
    out->n_batches = narrow_int(n_batches);
    out->n = n;
    TRY(alloc_side(n_runs, n_batches, n, out));
    for (int r = 0, batch = 0; r < n_runs; r++) {
        int own = runs[r].batch_n ? runs[r].n_batches : narrow_int(runs[r].n);
        int64_t until = at + runs[r].n;
        for (int64_t i = 0; i < runs[r].n; i++) out->in_order[at + i] = log(runs[r].samples[i]);
        for (int b = 0; b < own; b++) {
            at += runs[r].batch_n ? runs[r].batch_n[b] : 1;
            out->first_value[++batch] = at;
        }
        ASSERT(at == until);
        out->first_batch[r + 1] = batch;
    }
    return finish_side(out);
}

/* Values are of_base · base + of_now · now, in logarithms. */
static err_t combine_batches(const stats_side_t *base, double of_base, const stats_side_t *now, double of_now,
                             stats_side_t *out)
{
    *out = (stats_side_t){.n_starts = 0};
    TRY(alloc_side(base->n_starts, base->n_batches, base->n_kept, out));
    for (int s = 0; s < base->n_starts; s++) {
        int a = base->first_batch[s], b = now->first_batch[s];
        int64_t n_before = out->n;
        int batch = out->first_batch[out->n_starts];
        for (; a < base->first_batch[s + 1] && b < now->first_batch[s + 1]; a++, b++) {
            if (base->first_value[a + 1] > base->first_value[a] &&
                now->first_value[b + 1] > now->first_value[b])
                out->in_order[out->n++] = of_base * base->batch_median[a] + of_now * now->batch_median[b];
            out->first_value[++batch] = out->n;
        }
        if (out->n > n_before) out->first_batch[++out->n_starts] = batch;
    }
    out->n_batches = out->first_batch[out->n_starts];
    return finish_side(out);
}

err_t stats_side_of_ratios(const stats_side_t *base, const stats_side_t *now, stats_side_t *out)
{
    return combine_batches(base, -1, now, 1, out);
}

err_t stats_side_of_levels(const stats_side_t *base, const stats_side_t *now, stats_side_t *out)
{
    return combine_batches(base, 0.5, now, 0.5, out);
}

void stats_side_free(stats_side_t *side)
{
    mem_free(&side->first_batch);
    mem_free(&side->first_value);
    mem_free(&side->share_below);
    mem_free(&side->start_weight);
    mem_free(&side->in_order);
    mem_free(&side->batch_median);
    mem_free(&side->sorted);
    mem_free(&side->weight);
}

void stats_side_draw(stats_side_t *side, int start, rng_t *rng)
{
    int from = side->first_batch[start], n = side->first_batch[start + 1] - from;
    int length = side->block < n ? side->block : n;
    int64_t n_drawn = 0;
    do { /* until a batch that is not a gap is drawn */
        for (int b = 0; b < n; b++) side->weight[from + b] = 0;
        n_drawn = 0;
        for (int left = n; left > 0; left -= length) {
            int b = (int)rng_below(rng, (uint32_t)n);
            for (int i = 0; i < length && i < left; i++, b = b + 1 < n ? b + 1 : 0) {
                side->weight[from + b] += 1;
                n_drawn += side->first_value[from + b + 1] - side->first_value[from + b];
            }
        }
    } while (n_drawn == 0);
    for (int b = 0; b < n; b++) side->weight[from + b] /= (double)n_drawn;
}

/* The value of `sorted`, searched from `from`, at which the sum of weights passes one half. weight[] is per
 * start or per batch. */
static double find_half(const stats_side_t *side, int64_t from, double sum, const double *weight,
                        bool of_starts)
{
    /* A start weighs 1 each time it is drawn. Sums within rounding error of one half count as equal; the
     * median then lies between two values. */
    double half = 0.5 * side->n_starts, near = 1e-9 * half;
    int64_t at = from;
    for (; at < side->n; at++) {
        const stats_value_t *v = &side->sorted[at];
        sum += weight[of_starts ? v->start : v->batch];
        if (sum > half - near) break;
    }
    if (at == side->n) return side->n > 0 ? side->sorted[at - 1].ln : 0;
    double value = side->sorted[at].ln;
    if (sum > half + near) return value;
    for (at++; at < side->n; at++) {
        const stats_value_t *v = &side->sorted[at];
        if (weight[of_starts ? v->start : v->batch] > 0) return (value + v->ln) / 2;
    }
    return value;
}

double stats_side_median(const stats_side_t *side)
{
    return find_half(side, 0, 0, side->weight, false);
}

double stats_side_median_of_starts(const stats_side_t *side, const int *times)
{
    double sum = 0;
    for (int s = 0; s < side->n_starts; s++) {
        side->start_weight[s] = times[s] / (double)n_values(side, s);
        sum += times[s] * side->share_below[s];
    }
    return find_half(side, side->central, sum, side->start_weight, true);
}

/* The median of a normal sample has π/2 times the variance of its mean. */
static double variance_of_median(const double *sorted, int64_t n)
{
    double low, high, mean = 0, squares = 0;
    stats_median_interval(sorted, n, &low, &high);
    if (isfinite(low) && isfinite(high)) return (high - low) * (high - low) / (4 * 1.96 * 1.96);
    for (int64_t i = 0; i < n; i++) mean += sorted[i] / (double)n;
    for (int64_t i = 0; i < n; i++) squares += (sorted[i] - mean) * (sorted[i] - mean);
    return n > 1 ? acos(0) * squares / (double)(n - 1) / (double)n : NAN;
}

double stats_side_start_median(const stats_side_t *side, int start, double *room, double *variance)
{
    int64_t from = side->first_value[side->first_batch[start]], n = n_values(side, start);
    double median = median_of(side, from, from + n, room);
    *variance = variance_of_median(room, n) * stats_side_variance_inflation(side, 1);
    return median;
}

int stats_side_batches(const stats_side_t *side, double sign, double *out)
{
    int n = 0;
    for (int b = 0; b < side->n_batches; b++)
        if (side->first_value[b + 1] > side->first_value[b]) out[n++] = sign * side->batch_median[b];
    return n;
}

double stats_side_variance_inflation(const stats_side_t *side, int length)
{
    double rho = side->correlation, l = length;
    return 1 / (1 - 2 * rho * (1 - pow(rho, l)) / (l * (1 - rho * rho)));
}
