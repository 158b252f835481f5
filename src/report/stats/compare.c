/* SPDX-License-Identifier: MIT */
/* Ratio of two sides with confidence interval, bootstrap and rank p-values, for independent or interleaved starts. The
 * starts of a recording are prepared for the bootstrap: logarithms, block length from the correlation of neighbours,
 * resampled quantiles. report/regress derives verdicts. Longer than others because the arrays of a side are of no use
 * elsewhere. */
#include "report/stats/stats.h"

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

#include "base/err.h"
#include "base/mem.h"
#include "base/rng.h"
#include "base/stats.h"

/* Some starts: the logarithms of their samples, in the order taken and sorted, and the block length of the bootstrap,
 * which keeps correlated batches together. */
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
    double quantile;       /* which one is the location */
    int64_t central;       /* all of `sorted` before this index is below every start's quantile */
    double *share_below;   /* [n_starts] share of a start's values before it */
    double centre;         /* location: the quantile of all values, with equal weight for each start */
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

/* The quantile of a mixture of starts lies between theirs, so the search can begin at the lowest of them. */
static void find_central(stats_side_t *side)
{
    for (side->central = 0; side->central < side->n; side->central++) {
        const stats_value_t *v = &side->sorted[side->central];
        double one = 1.0 / (double)n_values(side, v->start), share = side->share_below[v->start] + one;
        if (share > side->quantile - one / 4) return;
        side->share_below[v->start] = share;
    }
}

/* The value of `sorted`, searched from `from`, at which the sum of weights passes the quantile. weight[] is per
 * start or per batch. */
static double find_quantile(const stats_side_t *side, int64_t from, double sum, const double *weight,
                            bool of_starts)
{
    /* A start weighs 1 each time it is drawn. Sums within rounding error of the limit count as equal; the
     * quantile then lies between two values. */
    double limit = side->quantile * side->n_starts, near = 1e-9 * limit;
    int64_t at = from;
    for (; at < side->n; at++) {
        const stats_value_t *v = &side->sorted[at];
        sum += weight[of_starts ? v->start : v->batch];
        if (sum > limit - near) break;
    }
    if (at == side->n) return side->n > 0 ? side->sorted[at - 1].ln : 0;
    double value = side->sorted[at].ln;
    if (sum > limit + near) return value;
    for (at++; at < side->n; at++) {
        const stats_value_t *v = &side->sorted[at];
        if (weight[of_starts ? v->start : v->batch] > 0) return (value + v->ln) / 2;
    }
    return value;
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
    side->centre = find_quantile(side, 0, 0, side->weight, false);
    side->correlation = neighbour_correlation(side);
    side->block = block_length(side);
    return ERR_OK;
}

static err_t stats_side_new(const stats_run_t *runs, int n_runs, double quantile, stats_side_t *out)
{
    int64_t n_batches = 0, n = 0, at = 0;
    *out = (stats_side_t){.n_starts = n_runs, .quantile = quantile};
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
    *out = (stats_side_t){.n_starts = 0, .quantile = 0.5};
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

/* Variance of the mean of the batches, as a first-order autoregression, relative to independent blocks of
 * `length` batches. */
static double stats_side_variance_inflation(const stats_side_t *side, int length)
{
    double rho = side->correlation, l = length;
    return 1 / (1 - 2 * rho * (1 - pow(rho, l)) / (l * (1 - rho * rho)));
}

/* Writes sign × median of each batch without gaps to out[side->n_kept]. Returns the number written. */
static int stats_side_batches(const stats_side_t *side, double sign, double *out)
{
    int n = 0;
    for (int b = 0; b < side->n_batches; b++)
        if (side->first_value[b + 1] > side->first_value[b]) out[n++] = sign * side->batch_median[b];
    return n;
}

/* Starts in parts: a side for each part, with the same starts and batches. */
typedef struct part_sides {
    stats_side_t *at;
    int n;
} part_sides_t;

static void part_sides_free(part_sides_t *sides)
{
    for (int i = 0; sides->at && i < sides->n; i++) stats_side_free(&sides->at[i]);
    mem_free(&sides->at);
}

/* The starts [first, first + n) of `runs`. */
static err_t part_sides_new(const stats_runs_t *runs, int first, int n, double quantile, part_sides_t *out)
{
    *out = (part_sides_t){.n = runs->n_parts};
    TRY(mem_new_array(out->n, sizeof *out->at, "parts to compare", &out->at));
    for (int i = 0; i < out->n; i++) {
        TRY(stats_side_new(runs->at + (ptrdiff_t)i * runs->n + first, n, quantile, &out->at[i]));
        ASSERT(out->at[i].n == out->at[0].n && out->at[i].n_batches == out->at[0].n_batches);
    }
    return ERR_OK;
}

static double ln_of_sum(const part_sides_t *sides, double (*of_part)(const stats_side_t *, const void *),
                        const void *context)
{
    double sum = 0;
    if (sides->n == 1) return of_part(sides->at, context);
    for (int i = 0; i < sides->n; i++) sum += exp(of_part(&sides->at[i], context));
    return log(sum);
}

static double part_centre(const stats_side_t *side, const void *unused)
{
    (void)unused;
    return side->centre;
}

/* times: how often each start was drawn. */
static double part_of_starts(const stats_side_t *side, const void *times)
{
    const int *drawn = times;
    double sum = 0;
    for (int s = 0; s < side->n_starts; s++) {
        side->start_weight[s] = drawn[s] / (double)n_values(side, s);
        sum += drawn[s] * side->share_below[s];
    }
    return find_quantile(side, side->central, sum, side->start_weight, true);
}

/* weights: of the batches drawn, which all parts share. */
static double part_of_batches(const stats_side_t *side, const void *weights)
{
    return find_quantile(side, 0, 0, weights, false);
}

enum {
    DRAW_STARTS,
    DRAW_BLOCKS
}; /* random substreams, the same for both sides, so that swapping them has no effect */

/* The logarithm of a location and its variance. df 0: the variance is unknown. */
typedef struct estimate {
    double ln, variance, df;
    double *resampled; /* [n_resamples] if df > 0 */
} estimate_t;

static bool is_median(const stats_compare_options_t *options)
{
    return !(options->quantile < 0.5) && !(options->quantile > 0.5);
}

/* The variance of resampled locations. Of quantiles other than the median, that of a normal distribution with their
 * central 68 %: a resample without any start that had an undisturbed moment says nothing of the fastest samples.
 * Sorts the values then. */
static double variance_of(const stats_compare_options_t *options, double *values, int n)
{
    double sum = 0, squares = 0;
    if (!is_median(options)) {
        const double share = stats_normal_cdf(1);
        stats_sort(values, n);
        const double deviation =
            (stats_quantile(values, n, share) - stats_quantile(values, n, 1 - share)) / 2;
        return deviation * deviation;
    }
    for (int i = 0; i < n; i++) sum += values[i];
    for (int i = 0; i < n; i++) squares += (values[i] - sum / n) * (values[i] - sum / n);
    return squares / n;
}

static void draw_starts(rng_t *rng, int k, int *times)
{
    for (int s = 0; s < k; s++) times[s] = 0;
    for (int s = 0; s < k; s++) times[rng_below(rng, (uint32_t)k)]++;
}

/* Variance of the location by drawing blocks, n_blocks per start. */
static double variance_within(part_sides_t *sides, const stats_compare_options_t *options, rng_t rng,
                              int n_resamples, double n_blocks, double *locations)
{
    stats_side_t *first = sides->at;
    for (int r = 0; r < n_resamples; r++) {
        for (int s = 0; s < first->n_starts; s++) stats_side_draw(first, s, &rng);
        locations[r] = ln_of_sum(sides, part_of_batches, first->weight);
    }
    return variance_of(options, locations, n_resamples) * n_blocks / (n_blocks - 1) *
           stats_side_variance_inflation(first, first->block);
}

/* Of the history, otherwise the assumed one. */
static stats_spread_t spread_of_starts(const stats_compare_options_t *options)
{
    if (options->starts.df >= STATS_MIN_RECORDINGS - 1) return options->starts;
    return (stats_spread_t){options->start_spread, INFINITY, 0};
}

/* The variance of the location of the fastest samples that starts add, which drawing them hides: most resamples have the
 * fastest start. The smallest of 3 to 8 normal values varies by 0.75 to 0.61 of their standard deviation. That is the
 * history's, or a quarter of what is assumed for one start. */
static double variance_of_fastest(const stats_compare_options_t *options)
{
    const double smallest = 0.7;
    const stats_spread_t spread = spread_of_starts(options);
    const double deviation = spread.deviation / (isinf(spread.df) ? 4 : 1);
    return smallest * smallest * deviation * deviation;
}

/* Whether the location of the fastest samples is one: three times as many are not far above it. Otherwise hardly a
 * sample was undisturbed, and it says how disturbed they were. times: [n_starts], scratch. */
static bool is_floor(part_sides_t *sides, const stats_compare_options_t *options, int *times)
{
    enum { FURTHER = 3 };
    const double far = 0.2;
    for (int s = 0; s < sides->at[0].n_starts; s++) times[s] = 1;
    for (int i = 0; i < sides->n; i++) sides->at[i].quantile = FURTHER * options->quantile;
    const double further = ln_of_sum(sides, part_of_starts, times);
    for (int i = 0; i < sides->n; i++) sides->at[i].quantile = options->quantile;
    return further - ln_of_sum(sides, part_centre, NULL) <= far;
}

/* The location of a recording, index `which` of its side, and its variance within the recording. Without the spread of
 * starts if it has only one. */
static err_t estimate_recording(part_sides_t *sides, const stats_compare_options_t *options, int which,
                                estimate_t *out)
{
    enum { FLOOR_SHARE = 4 }; /* share of resamples for the lower bound of the variance */
    const stats_side_t *first = sides->at;
    int *times = NULL, n = options->n_resamples, k = first->n_starts;
    double within = 0;
    err_t err = ERR_OK;
    *out = (estimate_t){.ln = ln_of_sum(sides, part_centre, NULL)};
    TRY_OUT(err, mem_new_array(n, sizeof *out->resampled, "locations of resamples", &out->resampled));
    double n_blocks = (double)first->n_kept / k / first->block;
    TRY_OUT(err, mem_new_array(k, sizeof *times, "starts drawn", &times));
    if (n_blocks >= 2)
        within = variance_within(sides, options,
                                 rng_new(options->seed, RNG_BOOTSTRAP, (uint64_t)(2 * which + DRAW_BLOCKS)),
                                 k == 1                ? n
                                 : n / FLOOR_SHARE > 2 ? n / FLOOR_SHARE
                                                       : 2,
                                 n_blocks, out->resampled);
    if (k == 1 && n_blocks >= 2) {
        out->variance = within;
        out->df = n_blocks - 1;
    } else if (k > 1) {
        rng_t rng = rng_new(options->seed, RNG_BOOTSTRAP, (uint64_t)(2 * which + DRAW_STARTS));
        for (int r = 0; r < n; r++) {
            draw_starts(&rng, k, times);
            out->resampled[r] = ln_of_sum(sides, part_of_starts, times);
        }
        out->variance = fmax(within, variance_of(options, out->resampled, n) * k / (k - 1));
        out->df = k - 1;
        if (!is_median(options)) {
            out->variance += variance_of_fastest(options);
            if (!is_floor(sides, options, times)) out->df = 0;
        }
    }
out:
    mem_free(&times);
    return err;
}

/* The recordings of a side. */
typedef struct recordings {
    estimate_t *at;             /* [n] */
    int n, n_single, n_unknown; /* of one start; of unknown variance */
    double mean;                /* of their locations */
    double within;              /* mean variance within one */
} recordings_t;

static void recordings_free(recordings_t *recordings)
{
    for (int i = 0; recordings->at && i < recordings->n; i++) mem_free(&recordings->at[i].resampled);
    mem_free(&recordings->at);
}

static err_t estimate_recordings(const stats_runs_t *runs, const stats_compare_options_t *options,
                                 recordings_t *out)
{
    part_sides_t sides = {0};
    err_t err = ERR_OK;
    TRY_OUT(err, mem_new_array(runs->n, sizeof *out->at, "recordings", &out->at));
    for (int first = 0, n; first < runs->n; first += n) {
        for (n = 1; first + n < runs->n && runs->at[first + n].recording == runs->at[first].recording;) n++;
        TRY_OUT(err, part_sides_new(runs, first, n, options->quantile, &sides));
        estimate_t *at = &out->at[out->n];
        TRY_OUT(err, estimate_recording(&sides, options, out->n++, at));
        out->n_single += n == 1;
        out->n_unknown += !(at->df > 0);
        part_sides_free(&sides);
    }
    for (int i = 0; i < out->n; i++) {
        out->mean += out->at[i].ln / out->n;
        out->within += out->at[i].variance / out->n;
    }
out:
    part_sides_free(&sides);
    return err;
}

/* s² of the recordings' locations about their side's mean, over the sides that have enough of them. */
static stats_spread_t measured_spread(const recordings_t *const sides[2])
{
    stats_spread_t out = {0};
    double squares = 0, n = 0;
    for (int side = 0; side < 2; side++) {
        const recordings_t *all = sides[side];
        if (all->n < STATS_MIN_RECORDINGS) continue;
        for (int i = 0; i < all->n; i++) squares += (all->at[i].ln - all->mean) * (all->at[i].ln - all->mean);
        out.df += all->n - 1;
        out.within += all->n * all->within;
        n += all->n;
    }
    if (!(out.df > 0)) return out;
    out.deviation = sqrt(squares / out.df);
    out.within /= n;
    return out;
}

/* What recordings may differ by: the measured spread, of the sides or of the history, whichever has more degrees of
 * freedom; otherwise the assumed one. Both if the measured one is the smaller. Returns their number. */
static int possible_spreads(stats_spread_t measured, const stats_compare_options_t *options,
                            stats_spread_t out[2])
{
    const stats_spread_t assumed = {options->recording_spread, INFINITY, 0};
    const stats_spread_t known = options->recordings.df > measured.df ? options->recordings : measured;
    if (known.df < STATS_MIN_RECORDINGS - 1) {
        out[0] = assumed;
        return 1;
    }
    out[0] = known, out[1] = assumed;
    return known.deviation < assumed.deviation ? 2 : 1;
}

/* A variance and its degrees of freedom, of parts added by Welch (1947) and Satterthwaite (1946). */
typedef struct variance_sum {
    double sum, of_parts;
} variance_sum_t;

static void add_variance(variance_sum_t *to, double variance, double df)
{
    to->sum += variance;
    if (variance > 0) to->of_parts += variance * variance / df;
}

static double degrees_of_freedom(const variance_sum_t *v)
{
    return v->of_parts > 0 ? v->sum * v->sum / v->of_parts : INFINITY;
}

/* Adds the variance within the recordings of a side beyond `included`, which the spread between them includes, and
 * that of single starts, unless the spread includes it too. */
static void add_within(const recordings_t *side, const stats_compare_options_t *options, double included,
                       bool with_starts, variance_sum_t *variance, bool *assumed)
{
    const double share = fmax(0, side->within - included) / (side->within > 0 ? side->within : 1);
    const double n = side->n;
    for (int i = 0; i < side->n; i++)
        add_variance(variance, share * side->at[i].variance / (n * n), side->at[i].df);
    if (!with_starts || side->n_single == 0) return;
    const stats_spread_t spread = spread_of_starts(options);
    add_variance(variance, spread.deviation * spread.deviation * side->n_single / (n * n), spread.df);
    *assumed |= isinf(spread.df) && side->n_single == side->n;
}

/* now - base of recordings that differ by `spread`, into d, which has room for resamples. Both sides drew the same random
 * numbers, so resamples are paired with an offset of half their number to be independent. */
static void subtract_sides(const recordings_t *const sides[2], stats_spread_t spread, bool includes_starts,
                           const stats_compare_options_t *options, estimate_t *d, stats_difference_t *out)
{
    const int n = options->n_resamples;
    const double squared = spread.deviation * spread.deviation;
    variance_sum_t variance = {0};
    d->ln = 0;
    for (int r = 0; r < n; r++) d->resampled[r] = 0;
    for (int side = 0; side < 2; side++) {
        const recordings_t *all = sides[side];
        const double weight = (side ? 1.0 : -1.0) / all->n;
        for (int i = 0; i < all->n; i++) {
            d->ln += weight * all->at[i].ln;
            for (int r = 0; r < n; r++)
                d->resampled[r] += weight * all->at[i].resampled[side ? (r + n / 2) % n : r];
        }
    }
    add_variance(&variance, squared / sides[0]->n + squared / sides[1]->n, spread.df);
    for (int side = 0; side < 2; side++)
        add_within(sides[side], options, spread.within, !includes_starts, &variance, &out->assumed);
    d->variance = variance.sum;
    d->df = degrees_of_freedom(&variance);
    if (isfinite(spread.df) || spread.deviation > 0) out->recordings = spread;
}

/* Sets ratio, interval, error and the bootstrap's p. Sorts the resamples. */
static void conclude_difference(const estimate_t *d, const stats_compare_options_t *options,
                                stats_difference_t *out)
{
    int n = options->n_resamples, n_above = 0, n_below = 0;
    out->ratio = exp(d->ln);
    out->error = INFINITY, out->p = 1, out->low = 0, out->high = INFINITY;
    if (!(d->df > 0)) return;
    out->error = sqrt(d->variance);
    out->df = d->df;
    double half = out->error > 0 ? stats_t_quantile(1 - options->alpha / 2, d->df) * out->error : 0;
    if (out->error > 0)
        out->p = fmin(1, 2 * stats_t_cdf(-fabs(d->ln) / out->error, d->df));
    else
        out->p = fabs(d->ln) > 0 ? 0 : 1;
    out->low = exp(d->ln - half), out->high = exp(d->ln + half);
    if (!is_median(options)) return;
    for (int r = 0; r < n; r++) n_above += d->resampled[r] >= 0, n_below += d->resampled[r] <= 0;
    out->p = fmax(out->p, fmin(1, 2.0 * (n_above < n_below ? n_above : n_below) / n));
    stats_sort(d->resampled, n);
    out->low = fmin(out->low, exp(stats_quantile(d->resampled, n, options->alpha / 2)));
    out->high = fmax(out->high, exp(stats_quantile(d->resampled, n, 1 - options->alpha / 2)));
}

/* Corrects the p of a rank test for a variance larger than that of independent values by `factor`. */
static double widen_p(double p, double factor)
{
    if (p <= 0 || p >= 1) return p;
    return fmin(1, 2 * stats_normal_cdf(stats_normal_quantile(p / 2) / sqrt(factor)));
}

/* Of two possible spreads, the smaller p and the narrower interval. */
static void conclude_apart(const recordings_t *base, const recordings_t *now,
                           const stats_compare_options_t *options, estimate_t *d, stats_difference_t *out)
{
    const recordings_t *const sides[2] = {base, now};
    const stats_spread_t measured = measured_spread(sides);
    const bool all_single = base->n_single == base->n && now->n_single == now->n;
    const bool elsewhere = options->recordings.df > measured.df;
    stats_spread_t spreads[2];
    d->ln = now->mean - base->mean;
    if (base->n_unknown + now->n_unknown > 0) {
        conclude_difference(d, options, out);
        out->assumed = base->n_single == base->n || now->n_single == now->n;
        return;
    }
    const int n = possible_spreads(measured, options, spreads);
    const bool is_measured = isfinite(spreads[0].df);
    const bool includes_starts = is_measured && (elsewhere ? !(options->starts.df > 0) : all_single);
    out->measured = is_measured ? spreads[0].deviation : 0;
    for (int i = 0; i < n; i++) {
        const stats_difference_t before = *out;
        subtract_sides(sides, spreads[i], includes_starts, options, d, out);
        conclude_difference(d, options, out);
        if (i == 0) continue;
        const double p = fmin(out->p, before.p);
        if (before.high / before.low < out->high / out->low) *out = before;
        out->p = p;
    }
}

static err_t compare_apart(const stats_runs_t *base, const stats_runs_t *now, const stats_side_t *a,
                           const stats_side_t *b, const stats_compare_options_t *options,
                           stats_difference_t *out)
{
    recordings_t of_base = {0}, of_now = {0};
    estimate_t d = {0};
    double *x = NULL, *y = NULL;
    err_t err = ERR_OK;
    TRY_OUT(err, estimate_recordings(base, options, &of_base));
    TRY_OUT(err, estimate_recordings(now, options, &of_now));
    TRY_OUT(err, mem_new_array(options->n_resamples, sizeof *d.resampled, "differences", &d.resampled));
    out->base = exp(of_base.mean), out->now = exp(of_now.mean);
    conclude_apart(&of_base, &of_now, options, &d, out);
    if (!is_median(options) || base->n_parts > 1) goto out;
    TRY_OUT(err, mem_new_array(a->n_kept, sizeof *x, "batches' medians", &x));
    TRY_OUT(err, mem_new_array(b->n_kept, sizeof *y, "batches' medians", &y));
    out->n_batches[0] = stats_side_batches(a, 1, x);
    out->n_batches[1] = stats_side_batches(b, 1, y);
    TRY_OUT(err, stats_mann_whitney(x, out->n_batches[0], y, out->n_batches[1], &out->u, &out->p_rank));
    out->p_rank =
        widen_p(out->p_rank, fmax(stats_side_variance_inflation(a, 1), stats_side_variance_inflation(b, 1)));
out:
    recordings_free(&of_base);
    recordings_free(&of_now);
    mem_free(&d.resampled);
    mem_free(&x);
    mem_free(&y);
    return err;
}

/* Median of a pair's ratios, or levels. */
static double pair_median(const stats_side_t *pairs, int pair, double *room)
{
    int64_t from = pairs->first_value[pairs->first_batch[pair]];
    return median_between(pairs, from, from + n_values(pairs, pair), room);
}

/* The median of the means of any two values, or of one with itself (Hodges and Lehmann 1963): nearly as efficient as
 * the mean, and up to a quarter of the values may be anywhere. means: [k (k + 1) / 2], scratch. */
static double pseudomedian(const double *values, int k, double *means)
{
    int64_t n = 0;
    for (int i = 0; i < k; i++)
        for (int j = i; j < k; j++) means[n++] = (values[i] + values[j]) / 2;
    return stats_median(means, n);
}

/* The pseudomedian over pairs. Draws pairs. */
static err_t estimate_pairs(const stats_side_t *pairs, const stats_compare_options_t *options,
                            estimate_t *out)
{
    const int k = pairs->n_starts, n = options->n_resamples;
    double *medians = NULL, *drawn = NULL, *room = NULL;
    err_t err = ERR_OK;
    TRY_OUT(err, mem_new_array(n, sizeof *out->resampled, "medians of resamples", &out->resampled));
    TRY_OUT(err, mem_new_array(k, sizeof *medians, "pairs' medians", &medians));
    TRY_OUT(err, mem_new_array(k, sizeof *drawn, "pairs' medians", &drawn));
    TRY_OUT(err, mem_new_array(pairs->n + (int64_t)k * (k + 1) / 2, sizeof *room, "a pair", &room));
    for (int s = 0; s < k; s++) medians[s] = pair_median(pairs, s, room);
    rng_t rng = rng_new(options->seed, RNG_BOOTSTRAP, DRAW_STARTS);
    for (int r = 0; r < n; r++) {
        for (int i = 0; i < k; i++) drawn[i] = medians[rng_below(&rng, (uint32_t)k)];
        out->resampled[r] = pseudomedian(drawn, k, room);
    }
    out->ln = pseudomedian(medians, k, room);
    out->variance = variance_of(options, out->resampled, n) * k / (k - 1);
    out->df = k - 1;
out:
    mem_free(&medians);
    mem_free(&drawn);
    mem_free(&room);
    return err;
}

/* Without a pair, base and now stay the medians of the sides. */
static err_t compare_pairs(stats_side_t *ratios, const stats_side_t *levels,
                           const stats_compare_options_t *options, stats_difference_t *out)
{
    estimate_t d = {0};
    double *room = NULL, *level = NULL;
    err_t err = ERR_OK;
    const int k = ratios->n_starts;
    out->assumed = k == 1;
    if (k > 1) {
        TRY_OUT(err, estimate_pairs(ratios, options, &d));
    } else if (k == 1) {
        part_sides_t one = {ratios, 1};
        TRY_OUT(err, estimate_recording(&one, options, 0, &d));
        variance_sum_t variance = {0};
        const stats_spread_t spread = spread_of_starts(options);
        add_variance(&variance, d.variance, d.df);
        add_variance(&variance, 2 * spread.deviation * spread.deviation, spread.df);
        out->assumed = isinf(spread.df);
        if (d.df > 0) d.variance = variance.sum, d.df = degrees_of_freedom(&variance);
    } else {
        d.ln = log(out->now / out->base);
    }
    if (k > 0) {
        TRY_OUT(err, mem_new_array(k, sizeof *level, "levels", &level));
        TRY_OUT(err, mem_new_array(levels->n, sizeof *room, "a pair", &room));
        for (int s = 0; s < k; s++) level[s] = pair_median(levels, s, room);
        double middle = stats_median(level, k);
        out->base = exp(middle - d.ln / 2);
        out->now = exp(middle + d.ln / 2);
    }
    conclude_difference(&d, options, out);
    mem_free(&room);
    TRY_OUT(err, mem_new_array(ratios->n_kept, sizeof *room, "batches' ratios", &room));
    int n = out->n_batches[0] = out->n_batches[1] = stats_side_batches(ratios, -1, room);
    TRY_OUT(err, stats_signed_rank(room, n, &out->u, &out->p_rank));
    if (n > 0) out->p_rank = widen_p(out->p_rank, stats_side_variance_inflation(ratios, 1));
out:
    mem_free(&d.resampled);
    mem_free(&room);
    mem_free(&level);
    return err;
}

/* Of another quantile than the median, or of parts. Draws pairs. */
static err_t compare_pairs_locations(const stats_runs_t *base, const stats_runs_t *now,
                                     const stats_compare_options_t *options, stats_difference_t *out)
{
    const int k = base->n, n = options->n_resamples;
    part_sides_t a = {0}, b = {0};
    estimate_t d = {0};
    int *times = NULL;
    err_t err = ERR_OK;
    TRY_OUT(err, part_sides_new(base, 0, k, options->quantile, &a));
    TRY_OUT(err, part_sides_new(now, 0, k, options->quantile, &b));
    TRY_OUT(err, mem_new_array(n, sizeof *d.resampled, "ratios of resamples", &d.resampled));
    TRY_OUT(err, mem_new_array(k, sizeof *times, "pairs drawn", &times));
    const double ln_base = ln_of_sum(&a, part_centre, NULL), ln_now = ln_of_sum(&b, part_centre, NULL);
    out->base = exp(ln_base), out->now = exp(ln_now);
    d.ln = ln_now - ln_base;
    rng_t rng = rng_new(options->seed, RNG_BOOTSTRAP, DRAW_STARTS);
    for (int r = 0; r < n && k > 1; r++) {
        draw_starts(&rng, k, times);
        d.resampled[r] = ln_of_sum(&b, part_of_starts, times) - ln_of_sum(&a, part_of_starts, times);
    }
    if (k > 1) {
        d.variance = variance_of(options, d.resampled, n) * k / (k - 1) + 2 * variance_of_fastest(options);
        d.df = is_floor(&a, options, times) && is_floor(&b, options, times) ? k - 1 : 0;
    }
    out->assumed = k == 1;
    conclude_difference(&d, options, out);
out:
    part_sides_free(&a);
    part_sides_free(&b);
    mem_free(&d.resampled);
    mem_free(&times);
    return err;
}

/* Whether the best division of the samples into a fast and a slow part, each with a tenth of them or more, explains most
 * of their variance (Otsu 1979); of a uniform distribution it explains 75 %, of a normal one 64 %. */
static bool has_two_levels(const stats_side_t *side)
{
    enum { MIN_VALUES = 20 };
    const double explained = 0.85, least = 0.1, apart = 0.05;
    double sum = 0, squares = 0, below = 0;
    if (side->n < MIN_VALUES) return false;
    const double origin = side->sorted[side->n / 2].ln, n = (double)side->n;
    for (int64_t i = 0; i < side->n; i++) {
        double ln = side->sorted[i].ln - origin;
        sum += ln, squares += ln * ln;
    }
    squares -= sum * sum / n;
    for (int64_t i = 1; i < side->n; i++) {
        below += side->sorted[i - 1].ln - origin;
        const double share = (double)i / n;
        if (share < least || share > 1 - least) continue;
        const double gap = (sum - below) / (n - (double)i) - below / (double)i;
        if (gap > apart && n * share * (1 - share) * gap * gap > explained * squares) return true;
    }
    return false;
}

err_t stats_compare(const stats_runs_t *base, const stats_runs_t *now, bool interleaved,
                    const stats_compare_options_t *options, stats_difference_t *out)
{
    stats_side_t a = {0}, b = {0}, ratios = {0}, levels = {0};
    err_t err = ERR_OK;
    ASSERT(base->n > 0 && now->n > 0 && options->n_resamples > 1);
    ASSERT(base->n_parts > 0 && base->n_parts == now->n_parts);
    ASSERT(!interleaved || base->n == now->n);
    *out = (stats_difference_t){.p = 1};
    TRY_OUT(err, stats_side_new(base->at, base->n, options->quantile, &a));
    TRY_OUT(err, stats_side_new(now->at, now->n, options->quantile, &b));
    out->base = exp(a.centre), out->now = exp(b.centre);
    out->two_levels = has_two_levels(&a) && has_two_levels(&b);
    if (!interleaved) {
        TRY_OUT(err, compare_apart(base, now, &a, &b, options, out));
    } else if (is_median(options) && base->n_parts == 1) {
        TRY_OUT(err, combine_batches(&a, -1, &b, 1, &ratios));
        TRY_OUT(err, combine_batches(&a, 0.5, &b, 0.5, &levels));
        TRY_OUT(err, compare_pairs(&ratios, &levels, options, out));
    } else {
        TRY_OUT(err, compare_pairs_locations(base, now, options, out));
    }
    out->p = fmax(out->p, out->p_rank);
out:
    stats_side_free(&a);
    stats_side_free(&b);
    stats_side_free(&ratios);
    stats_side_free(&levels);
    return err;
}
