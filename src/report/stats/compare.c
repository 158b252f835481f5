/* SPDX-License-Identifier: MIT */
/* Ratio of two recordings with confidence interval, bootstrap and rank p-values, for independent or
 * interleaved starts. report/regress derives verdicts. */
#include "report/stats/compare.h"

#include <math.h>

#include "base/mem.h"
#include "base/stats.h"
#include "report/stats/distribution.h"
#include "report/stats/pool.h"
#include "report/stats/rank.h"

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

/* Median and variance of each start. Unknown variances get the typical one and small ones a floor: a variance
 * too small by chance would give its start all the weight. */
static void medians_of_starts(const stats_side_t *side, double *medians, double *variances, double *room)
{
    int k = side->n_starts, n = 0;
    for (int s = 0; s < k; s++) medians[s] = stats_side_start_median(side, s, room, &variances[s]);
    for (int s = 0; s < k; s++)
        if (variances[s] >= 0) room[n++] = variances[s];
    double typical = n > 0 ? stats_median(room, n) : 0;
    for (int s = 0; s < k; s++) {
        if (!(variances[s] >= 0)) variances[s] = typical;
        variances[s] = fmax(variances[s], fmax(typical / 4, 1e-24));
    }
}

/* Estimate from the ratios of several interleaved starts, pooled by their variances; their levels get the same
 * weights. */
static err_t estimate_starts(const stats_side_t *side, const stats_side_t *levels,
                             const stats_compare_options_t *options, estimate_t *out)
{
    int k = side->n_starts;
    double *medians = NULL, *variances = NULL, *weights = NULL, *room = NULL;
    err_t err = ERR_OK;
    TRY_OUT(err, mem_new_array(options->n_resamples, sizeof *out->resampled, "means of resamples",
                               &out->resampled));
    TRY_OUT(err, mem_new_array(k, sizeof *medians, "starts' medians", &medians));
    TRY_OUT(err, mem_new_array(k, sizeof *variances, "starts' variances", &variances));
    TRY_OUT(err, mem_new_array(k, sizeof *weights, "starts' weights", &weights));
    TRY_OUT(err, mem_new_array(side->n + k, sizeof *room, "a start", &room));
    medians_of_starts(side, medians, variances, room);
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

static err_t rank_apart(const stats_side_t *base, const stats_side_t *now, stats_difference_t *out)
{
    double *a = NULL, *b = NULL;
    err_t err = ERR_OK;
    TRY_OUT(err, mem_new_array(base->n_kept, sizeof *a, "batches' medians", &a));
    TRY_OUT(err, mem_new_array(now->n_kept, sizeof *b, "batches' medians", &b));
    out->n_batches[0] = stats_side_batches(base, 1, a);
    out->n_batches[1] = stats_side_batches(now, 1, b);
    TRY_OUT(err, stats_mann_whitney(a, out->n_batches[0], b, out->n_batches[1], &out->u, &out->p_rank));
    out->p_rank = widen_p(
        out->p_rank, fmax(stats_side_variance_inflation(base, 1), stats_side_variance_inflation(now, 1)));
out:
    mem_free(&a);
    mem_free(&b);
    return err;
}

static err_t rank_interleaved(const stats_side_t *ratios, stats_difference_t *out)
{
    double *differences = NULL;
    err_t err = ERR_OK;
    TRY_OUT(err, mem_new_array(ratios->n_kept, sizeof *differences, "batches' ratios", &differences));
    int n = out->n_batches[0] = out->n_batches[1] = stats_side_batches(ratios, -1, differences);
    TRY_OUT(err, stats_signed_rank(differences, n, &out->u, &out->p_rank));
    if (n > 0) out->p_rank = widen_p(out->p_rank, stats_side_variance_inflation(ratios, 1));
out:
    mem_free(&differences);
    return err;
}

static err_t compare_apart(stats_side_t *base, stats_side_t *now, const stats_compare_options_t *options,
                           stats_difference_t *out)
{
    double spread = options->start_spread * options->start_spread;
    estimate_t of_base = {0}, of_now = {0};
    err_t err = ERR_OK;
    out->assumed = base->n_starts == 1 || now->n_starts == 1;
    TRY_OUT(err, estimate_side(base, options, spread, &of_base));
    TRY_OUT(err, estimate_side(now, options, spread, &of_now));
    conclude_difference(subtract_estimates(&of_base, &of_now, options->n_resamples), options, out);
    TRY_OUT(err, rank_apart(base, now, out));
out:
    mem_free(&of_base.resampled);
    mem_free(&of_now.resampled);
    return err;
}

/* Without a pair, base and now stay the medians of the sides. */
static err_t compare_interleaved(stats_side_t *ratios, const stats_side_t *levels,
                                 const stats_compare_options_t *options, stats_difference_t *out)
{
    estimate_t of_ratios = {0};
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
    TRY_OUT(err, rank_interleaved(ratios, out));
out:
    mem_free(&of_ratios.resampled);
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
        TRY_OUT(err, stats_side_of_ratios(&a, &b, &ratios));
        TRY_OUT(err, stats_side_of_levels(&a, &b, &levels));
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
