/* SPDX-License-Identifier: MIT */
/* Ratio of two recordings with confidence interval, bootstrap and rank p-values, for independent or interleaved
 * starts. A side is prepared for the bootstrap: logarithms, block length from the correlation of neighbours,
 * resampled medians. report/regress derives verdicts. */
#include "report/stats/stats.h"

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

#include "base/err.h"
#include "base/mem.h"
#include "base/rng.h"
#include "base/stats.h"

/* One side: the logarithms of the samples of all its starts, in the order taken and sorted, and the block length of the
 * bootstrap, which keeps correlated batches together. */
typedef struct stats_value {
    double ln;
    int32_t batch, start;
} stats_value_t;

typedef struct stats_side {
    int n_starts, n_batches; /* batches of all starts, including gaps */
    int64_t n;
    int *first_batch;      /* [n_starts + 1] */
    int64_t *first_value;  /* [n_batches + 1], index in in_order */
    double *in_order;      /* [n] ln of the samples */
    double *batch_median;  /* [n_batches]; 0 for a gap */
    stats_value_t *sorted; /* [n] ascending */
    double *weight;        /* [n_batches] of each value of the batch, in the resample */
    double *start_weight;  /* [n_starts] scratch */
    int n_kept;            /* batches without gaps */
    int64_t central;       /* all of `sorted` before this index is below every start's median */
    double *share_below;   /* [n_starts] share of a start's values before it */
    double centre;         /* median of all values, with equal weight for each start */
    double correlation;    /* of neighbouring batches, in [0, 0.95] */
    int block;             /* batches per block */
} stats_side_t;

static const double max_correlation = 0.95;

static int by_ln(const void *pa, const void *pb)
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
static double median_between(const stats_side_t *side, int64_t from, int64_t to, double *room)
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

/* Median of all values, weighted by side->weight. */
static double stats_side_median(const stats_side_t *side)
{
    return find_half(side, 0, 0, side->weight, false);
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
            side->batch_median[b] = median_between(side, from, to, room);
            side->n_kept++;
        }
    }
    mem_free(&room);
    if (side->n == 0) return ERR_OK;
    if (side->n > 1) qsort(side->sorted, (size_t)side->n, sizeof *side->sorted, by_ln);
    find_central(side);
    side->centre = stats_side_median(side);
    side->correlation = neighbour_correlation(side);
    side->block = block_length(side);
    return ERR_OK;
}

static err_t stats_side_new(const stats_run_t *runs, int n_runs, stats_side_t *out)
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

/* A side of pairs of neighbouring batches: each value is of_base · base + of_now · now of their medians, in
 * logarithms. -1 and 1: ratios; ½ and ½: geometric means. Pairs of starts without a batch on both sides are
 * left out; n_starts may become 0. */
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

static void stats_side_free(stats_side_t *side)
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

/* Resamples the batches of a start into side->weight, in circular blocks (Politis and Romano 1992). */
static void stats_side_draw(stats_side_t *side, int start, rng_t *rng)
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

/* Median of all values if start s was drawn times[s] times. */
static double stats_side_median_of_starts(const stats_side_t *side, const int *times)
{
    double sum = 0;
    for (int s = 0; s < side->n_starts; s++) {
        side->start_weight[s] = times[s] / (double)n_values(side, s);
        sum += times[s] * side->share_below[s];
    }
    return find_half(side, side->central, sum, side->start_weight, true);
}

/* Variance of the mean of the batches, as a first-order autoregression, relative to independent blocks of
 * `length` batches. */
static double stats_side_variance_inflation(const stats_side_t *side, int length)
{
    double rho = side->correlation, l = length;
    return 1 / (1 - 2 * rho * (1 - pow(rho, l)) / (l * (1 - rho * rho)));
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

/* Median of one start, and its variance from the variation within the start.
 *
 *   room  [side->n], scratch
 *
 * The variance comes from the width of the order-statistics interval (stats_median_interval), below 6 values
 * from their sample variance, times stats_side_variance_inflation(side, 1). NAN for a single value. */
static double stats_side_start_median(const stats_side_t *side, int start, double *room, double *variance)
{
    int64_t from = side->first_value[side->first_batch[start]], n = n_values(side, start);
    double median = median_between(side, from, from + n, room);
    *variance = variance_of_median(room, n) * stats_side_variance_inflation(side, 1);
    return median;
}

/* Writes sign × median of each batch without gaps to out[side->n_kept]. Returns the number written. */
static int stats_side_batches(const stats_side_t *side, double sign, double *out)
{
    int n = 0;
    for (int b = 0; b < side->n_batches; b++)
        if (side->first_value[b + 1] > side->first_value[b]) out[n++] = sign * side->batch_median[b];
    return n;
}

/* Sets weights, their sum and the mean. Returns the weighted squares about it. */
static double weighted_mean(const double *values, const double *variances, int n, double between,
                            double *weights, double *mean, double *sum)
{
    double squares = 0;
    *mean = *sum = 0;
    for (int i = 0; i < n; i++) {
        weights[i] = 1 / (variances[i] + between);
        *sum += weights[i];
    }
    for (int i = 0; i < n; i++) *mean += weights[i] / *sum * values[i];
    for (int i = 0; i < n; i++) squares += weights[i] * (values[i] - *mean) * (values[i] - *mean);
    return squares;
}

stats_pooled_t stats_pool(const double *values, const double *variances, int n, double *weights)
{
    enum { HALVINGS = 100 };
    stats_pooled_t out = {0};
    double centre = 0, low = 0, high = 0, sum;
    ASSERT(n > 1);
    /* With `between` at the values' own variance, the weighted squares are at most n - 1. */
    for (int i = 0; i < n; i++) centre += values[i] / n;
    for (int i = 0; i < n; i++) high += (values[i] - centre) * (values[i] - centre) / (n - 1);
    if (weighted_mean(values, variances, n, 0, weights, &out.mean, &sum) > n - 1) {
        for (int i = 0; i < HALVINGS; i++) {
            out.between = (low + high) / 2;
            if (weighted_mean(values, variances, n, out.between, weights, &out.mean, &sum) > n - 1)
                low = out.between;
            else
                high = out.between;
        }
    }
    double squares = weighted_mean(values, variances, n, out.between, weights, &out.mean, &sum);
    out.variance = squares / (n - 1) / sum;
    for (int i = 0; i < n; i++) weights[i] /= sum;
    return out;
}

enum {
    DRAW_STARTS,
    DRAW_BLOCKS
}; /* random substreams, the same for both sides, so that swapping them has no effect */

/* The logarithm of a location and its variance. df 0: the variance is unknown. */
typedef struct estimate {
    double ln, variance, df;
    double level;      /* of several interleaved starts: ln of the pairs' level */
    double *resampled; /* [n_resamples] if df > 0 */
} estimate_t;

static double variance_of(const double *values, int n)
{
    double sum = 0, squares = 0;
    for (int i = 0; i < n; i++) sum += values[i];
    for (int i = 0; i < n; i++) squares += (values[i] - sum / n) * (values[i] - sum / n);
    return squares / n;
}

/* Variance of the side's median by drawing starts. times[n_starts] and medians[n_resamples] are scratch. */
static double variance_between(const stats_side_t *side, const stats_compare_options_t *options, int *times,
                               double *medians)
{
    rng_t rng = rng_new(options->seed, RNG_BOOTSTRAP, DRAW_STARTS);
    int k = side->n_starts;
    for (int r = 0; r < options->n_resamples; r++) {
        for (int s = 0; s < k; s++) times[s] = 0;
        for (int s = 0; s < k; s++) times[rng_below(&rng, (uint32_t)k)]++;
        medians[r] = stats_side_median_of_starts(side, times);
    }
    return variance_of(medians, options->n_resamples) * k / (k - 1);
}

/* Variance of the side's median by drawing blocks, n_blocks per start. */
static double variance_within(stats_side_t *side, uint64_t seed, int n_resamples, double n_blocks,
                              double *medians)
{
    rng_t rng = rng_new(seed, RNG_BOOTSTRAP, DRAW_BLOCKS);
    for (int r = 0; r < n_resamples; r++) {
        for (int s = 0; s < side->n_starts; s++) stats_side_draw(side, s, &rng);
        medians[r] = stats_side_median(side);
    }
    return variance_of(medians, n_resamples) * n_blocks / (n_blocks - 1) *
           stats_side_variance_inflation(side, side->block);
}

/* Estimate from the ratios of several interleaved starts, pooled by their variances; their levels get the same
 * weights. */
static err_t estimate_starts(const stats_side_t *side, const stats_side_t *levels,
                             const stats_compare_options_t *options, estimate_t *out)
{
    int k = side->n_starts, n = 0;
    double *medians = NULL, *variances = NULL, *weights = NULL, *room = NULL;
    err_t err = ERR_OK;
    TRY_OUT(err, mem_new_array(options->n_resamples, sizeof *out->resampled, "means of resamples",
                               &out->resampled));
    TRY_OUT(err, mem_new_array(k, sizeof *medians, "starts' medians", &medians));
    TRY_OUT(err, mem_new_array(k, sizeof *variances, "starts' variances", &variances));
    TRY_OUT(err, mem_new_array(k, sizeof *weights, "starts' weights", &weights));
    TRY_OUT(err, mem_new_array(side->n + k, sizeof *room, "a start", &room));
    for (int s = 0; s < k; s++) medians[s] = stats_side_start_median(side, s, room, &variances[s]);
    /* Unknown variances get the typical one and small ones a floor: a variance too small by chance would give
     * its start all the weight. */
    for (int s = 0; s < k; s++)
        if (variances[s] >= 0) room[n++] = variances[s];
    double typical = n > 0 ? stats_median(room, n) : 0;
    for (int s = 0; s < k; s++) {
        if (!(variances[s] >= 0)) variances[s] = typical;
        variances[s] = fmax(variances[s], fmax(typical / 4, 1e-24));
    }
    stats_pooled_t pooled = stats_pool(medians, variances, k, weights);
    rng_t rng = rng_new(options->seed, RNG_BOOTSTRAP, DRAW_STARTS);
    for (int r = 0; r < options->n_resamples; r++) {
        double sum = 0, of_weights = 0;
        for (int i = 0; i < k; i++) {
            int s = (int)rng_below(&rng, (uint32_t)k);
            sum += weights[s] * medians[s];
            of_weights += weights[s];
        }
        out->resampled[r] = sum / of_weights;
    }
    out->ln = pooled.mean, out->variance = pooled.variance, out->df = k - 1;
    for (int s = 0; s < k; s++)
        out->level += weights[s] * stats_side_start_median(levels, s, room, &variances[s]);
out:
    mem_free(&medians);
    mem_free(&variances);
    mem_free(&weights);
    mem_free(&room);
    return err;
}

/* spread: assumed variance between starts, for a side of one start. */
static err_t estimate_side(stats_side_t *side, const stats_compare_options_t *options, double spread,
                           estimate_t *out)
{
    enum { FLOOR_SHARE = 4 }; /* share of resamples for the lower bound of the variance */
    int *times = NULL, n = options->n_resamples;
    double within = 0;
    err_t err = ERR_OK;
    *out = (estimate_t){.ln = side->centre};
    TRY_OUT(err, mem_new_array(n, sizeof *out->resampled, "medians of resamples", &out->resampled));
    if (side->n_starts == 0) return ERR_OK;
    double n_blocks = (double)side->n_kept / side->n_starts / side->block;
    TRY_OUT(err, mem_new_array(side->n_starts, sizeof *times, "starts drawn", &times));
    if (side->n_starts > 1) n = n / FLOOR_SHARE > 2 ? n / FLOOR_SHARE : 2;
    if (n_blocks >= 2) within = variance_within(side, options->seed, n, n_blocks, out->resampled);
    if (side->n_starts > 1) {
        out->variance = fmax(within, variance_between(side, options, times, out->resampled));
        out->df = side->n_starts - 1;
    } else if (n_blocks >= 2) {
        out->variance = within + spread;
        out->df = within > 0 ? out->variance * out->variance / (within * within) * (n_blocks - 1) : INFINITY;
    }
out:
    mem_free(&times);
    return err;
}

/* now - base of independent sides (Welch 1947, Satterthwaite 1946), in base's array. Both sides drew the same
 * random numbers, so resamples are paired with an offset of half their number to be independent. */
static estimate_t subtract_estimates(const estimate_t *base, const estimate_t *now, int n_resamples)
{
    estimate_t d = {.ln = now->ln - base->ln, .variance = base->variance + now->variance};
    if (!(base->df > 0) || !(now->df > 0)) return d;
    double of_parts = base->variance * base->variance / base->df + now->variance * now->variance / now->df;
    d.df = of_parts > 0 ? d.variance * d.variance / of_parts : INFINITY;
    d.resampled = base->resampled;
    for (int r = 0; r < n_resamples; r++)
        d.resampled[r] = now->resampled[(r + n_resamples / 2) % n_resamples] - base->resampled[r];
    return d;
}

/* Sets ratio, interval, error and the bootstrap's p. Sorts the resamples. */
static void conclude_difference(estimate_t d, const stats_compare_options_t *options, stats_difference_t *out)
{
    int n = options->n_resamples, n_above = 0, n_below = 0;
    out->ratio = exp(d.ln);
    out->error = INFINITY, out->p = 1, out->low = 0, out->high = INFINITY;
    if (!(d.df > 0)) return;
    out->error = sqrt(d.variance);
    double half = out->error > 0 ? stats_t_quantile(1 - options->alpha / 2, d.df) * out->error : 0;
    if (out->error > 0)
        out->p = fmin(1, 2 * stats_t_cdf(-fabs(d.ln) / out->error, d.df));
    else
        out->p = fabs(d.ln) > 0 ? 0 : 1;
    for (int r = 0; r < n; r++) n_above += d.resampled[r] >= 0, n_below += d.resampled[r] <= 0;
    out->p = fmax(out->p, fmin(1, 2.0 * (n_above < n_below ? n_above : n_below) / n));
    stats_sort(d.resampled, n);
    out->low = exp(fmin(d.ln - half, stats_quantile(d.resampled, n, options->alpha / 2)));
    out->high = exp(fmax(d.ln + half, stats_quantile(d.resampled, n, 1 - options->alpha / 2)));
}

/* Corrects the p of a rank test for a variance larger than that of independent values by `factor`. */
static double widen_p(double p, double factor)
{
    if (p <= 0 || p >= 1) return p;
    return fmin(1, 2 * stats_normal_cdf(stats_normal_quantile(p / 2) / sqrt(factor)));
}

static err_t compare_apart(stats_side_t *base, stats_side_t *now, const stats_compare_options_t *options,
                           stats_difference_t *out)
{
    double spread = options->start_spread * options->start_spread, *a = NULL, *b = NULL;
    estimate_t of_base = {0}, of_now = {0};
    err_t err = ERR_OK;
    out->assumed = base->n_starts == 1 || now->n_starts == 1;
    TRY_OUT(err, estimate_side(base, options, spread, &of_base));
    TRY_OUT(err, estimate_side(now, options, spread, &of_now));
    conclude_difference(subtract_estimates(&of_base, &of_now, options->n_resamples), options, out);
    TRY_OUT(err, mem_new_array(base->n_kept, sizeof *a, "batches' medians", &a));
    TRY_OUT(err, mem_new_array(now->n_kept, sizeof *b, "batches' medians", &b));
    out->n_batches[0] = stats_side_batches(base, 1, a);
    out->n_batches[1] = stats_side_batches(now, 1, b);
    TRY_OUT(err, stats_mann_whitney(a, out->n_batches[0], b, out->n_batches[1], &out->u, &out->p_rank));
    out->p_rank = widen_p(
        out->p_rank, fmax(stats_side_variance_inflation(base, 1), stats_side_variance_inflation(now, 1)));
out:
    mem_free(&of_base.resampled);
    mem_free(&of_now.resampled);
    mem_free(&a);
    mem_free(&b);
    return err;
}

/* Without a pair, base and now stay the medians of the sides. */
static err_t compare_interleaved(stats_side_t *ratios, const stats_side_t *levels,
                                 const stats_compare_options_t *options, stats_difference_t *out)
{
    estimate_t of_ratios = {0};
    double *differences = NULL;
    err_t err = ERR_OK;
    out->assumed = ratios->n_starts == 1;
    if (ratios->n_starts > 1)
        TRY_OUT(err, estimate_starts(ratios, levels, options, &of_ratios));
    else
        TRY_OUT(err, estimate_side(ratios, options, 2 * options->start_spread * options->start_spread,
                                   &of_ratios));
    if (ratios->n_starts == 0) of_ratios.ln = log(out->now / out->base);
    if (ratios->n_starts == 1) of_ratios.level = levels->centre;
    if (ratios->n_starts > 0) {
        out->base = exp(of_ratios.level - of_ratios.ln / 2);
        out->now = exp(of_ratios.level + of_ratios.ln / 2);
    }
    conclude_difference(of_ratios, options, out);
    TRY_OUT(err, mem_new_array(ratios->n_kept, sizeof *differences, "batches' ratios", &differences));
    int n = out->n_batches[0] = out->n_batches[1] = stats_side_batches(ratios, -1, differences);
    TRY_OUT(err, stats_signed_rank(differences, n, &out->u, &out->p_rank));
    if (n > 0) out->p_rank = widen_p(out->p_rank, stats_side_variance_inflation(ratios, 1));
out:
    mem_free(&of_ratios.resampled);
    mem_free(&differences);
    return err;
}

err_t stats_compare(const stats_run_t *base, int n_base, const stats_run_t *now, int n_now, bool interleaved,
                    const stats_compare_options_t *options, stats_difference_t *out)
{
    stats_side_t a = {0}, b = {0}, ratios = {0}, levels = {0};
    err_t err = ERR_OK;
    ASSERT(n_base > 0 && n_now > 0 && options->n_resamples > 1);
    *out = (stats_difference_t){.p = 1, .p_rank = 1};
    TRY_OUT(err, stats_side_new(base, n_base, &a));
    TRY_OUT(err, stats_side_new(now, n_now, &b));
    out->base = exp(a.centre), out->now = exp(b.centre);
    if (interleaved) {
        ASSERT(n_base == n_now);
        TRY_OUT(err, combine_batches(&a, -1, &b, 1, &ratios));
        TRY_OUT(err, combine_batches(&a, 0.5, &b, 0.5, &levels));
        TRY_OUT(err, compare_interleaved(&ratios, &levels, options, out));
    } else {
        TRY_OUT(err, compare_apart(&a, &b, options, out));
    }
    out->p = fmax(out->p, out->p_rank);
out:
    stats_side_free(&a);
    stats_side_free(&b);
    stats_side_free(&ratios);
    stats_side_free(&levels);
    return err;
}
