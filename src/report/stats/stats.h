/* SPDX-License-Identifier: MIT */
/* Statistics of measurements, without records. */
#ifndef REPORT_STATS_STATS_H
#define REPORT_STATS_STATS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

/* ---- Distributions and rank tests ---- */
/* Rank tests, the correction for many tests, and distributions. Not collective. */

/* Mann-Whitney test. *u is the number of pairs with a above b, ties counted as a half; *p is two-sided, 1 if
 * a side is empty. Exact without ties up to n_a + n_b = 40, otherwise a normal approximation corrected for
 * ties and continuity. ERR_SYSTEM: out of memory. */
err_t stats_mann_whitney(const double *a, int64_t n_a, const double *b, int64_t n_b, double *u, double *p);

/* Wilcoxon signed-rank test that paired differences are symmetric about 0 (Wilcoxon 1945). *w is the sum of
 * ranks of positive differences; zeros are dropped. Exact without ties up to n = 40. */
err_t stats_signed_rank(const double *differences, int64_t n, double *w, double *p);

/* Benjamini-Hochberg (1995): q[i] is the smallest false discovery rate at which test i is significant. A test
 * with p NAN does not count and gets q NAN. */
err_t stats_benjamini_hochberg(const double *p, int n, double *q);

/* Cumulative distributions and quantiles, accurate to about 12 digits of the smaller tail. Student's t: 8
 * digits at 1e5 degrees of freedom, 5 above 1e6, where the normal distribution is used. */
double stats_normal_cdf(double x);
double stats_normal_quantile(double p);       /* p in (0, 1) */
double stats_t_cdf(double t, double df);      /* Student's t; df from 0.1; INFINITY: normal */
double stats_t_quantile(double p, double df); /* p in (0, 1) */

/* Confidence interval of a proportion, k of n, at confidence 1 - alpha (Clopper and Pearson 1934). */
void stats_proportion_interval(int64_t k, int64_t n, double alpha, double *low, double *high);

/* ---- Two recordings of a measurement ---- */
/* The ratio of two recordings of one quantity and its uncertainty. A recording is several starts of a
 * program, each with its samples in the order taken. Starts differ (memory placement, for example) and
 * samples drift within a start, so samples are not independent: the bootstrap draws whole starts or blocks of
 * samples, never single samples.
 *
 * A side's location is the median of all its samples, with equal weight for each start. ratio is now / base;
 * its standard error comes from the bootstrap.
 *
 * Several starts (k ≥ 2): draws whole starts and multiplies the variance of the medians by k / (k - 1), which
 * corrects for drawing from so few (Hesterberg 2015, "What teachers should know about the bootstrap"); k - 1
 * degrees of freedom. This includes the variation within starts. If the starts happen to agree, the variance
 * from drawing blocks within each start is the lower bound.
 *
 * One start, or one interleaved pair: draws blocks (circular block bootstrap, Politis and Romano 1992),
 * multiplies the variance by b / (b - 1) for b blocks and by what blocks hide if batches are a first-order
 * autoregression; b - 1 degrees of freedom. start_spread² is added for the variation between starts (twice if
 * interleaved).
 *
 * Interleaved: each pair of starts contributes the median of the ratios of neighbouring batches, now / base,
 * with its variance. Several pairs are pooled by stats_pool with k - 1 degrees of freedom, so pairs
 * taken on a disturbed machine weigh less. base and now are those of the pairs: the median of the geometric
 * means of neighbouring batches, pooled with the same weights, divided and multiplied by the root of ratio.
 *
 * Sides are combined by Welch and Satterthwaite. The bootstrap's p is that of Student's t for ln(ratio), but
 * at least twice the share of resamples on the other side of 1. The interval is the union of Student's
 * interval and the percentile interval: percentiles alone are too narrow (3 starts give 10 distinct
 * resamples), t alone is too narrow if starts have two speed levels.
 *
 * Not detected: drift over the whole recording (use interleaving), and speed levels that last a whole start
 * if starts are few. scripts/bench/stats_errors.c measures the error rates.
 *
 * Not collective; deterministic. */

/* One start of a program. */
typedef struct stats_run {
    const double *samples; /* [n], above 0 and finite, in the order taken; borrowed */
    int64_t n;             /* from 1 */
    /* Consecutive samples in each batch, summing to n; 0: a gap, no sample of the batch was kept. NULL: each
     * sample is a batch. */
    const int32_t *batch_n;
    int n_batches;
} stats_run_t;

typedef struct stats_compare_options {
    double alpha;        /* the interval's confidence is 1 - alpha */
    double start_spread; /* assumed standard deviation of ln(median) between starts, for one start */
    int n_resamples;     /* from 2; if odd, swapping base and now changes low, high and p slightly */
    uint64_t seed;
} stats_compare_options_t;

typedef struct stats_difference {
    double base, now; /* medians of the samples, with equal weight for each start; interleaved: see above */
    double ratio;     /* now / base */
    double low, high; /* 1 - alpha confidence interval of the ratio */
    double error;     /* standard error of ln(ratio) */
    /* Mann-Whitney U of the batches' medians, counting base above now; interleaved: Wilcoxon's sum of ranks
     * of neighbours with base above now. */
    double u;
    /* Two-sided p of u, its variance widened by (1 + ρ) / (1 - ρ) for the correlation ρ of neighbouring
     * batches. It ignores the variation between starts. */
    double p_rank;
    double p;         /* two-sided p of ratio = 1: the larger of p_rank and the bootstrap's */
    int n_batches[2]; /* batches in u; samples if there are no batches */
    bool assumed;     /* start_spread was added */
} stats_difference_t;

/* Compares two recordings.
 *
 *   base, now    [n_base], [n_now] starts
 *   interleaved  base[i] and now[i] alternated batch by batch, so common disturbances cancel; requires
 *                batch_n and n_base == n_now
 *
 * No result is NAN. If the uncertainty is unknown (a side has one start with fewer than two blocks, or
 * no interleaved batch exists on both sides), p is 1, low 0, high and error INFINITY. Medians are taken of
 * logarithms: that of an even number of samples is the geometric mean of the middle two. Swapping base and
 * now inverts ratio, low and high and leaves error and p unchanged. ERR_SYSTEM: out of memory. */
err_t stats_compare(const stats_run_t *base, int n_base, const stats_run_t *now, int n_now, bool interleaved,
                    const stats_compare_options_t *options, stats_difference_t *out);

/* Pooling of several estimates of one quantity with different variances. */
typedef struct stats_pooled {
    double mean;
    double variance; /* of mean; n - 1 degrees of freedom */
    double between;  /* variance between the estimated quantities */
} stats_pooled_t;

/* Random-effects mean with weights 1 / (variance + between).
 *
 *   values     [n], n ≥ 2
 *   variances  [n], above 0
 *   weights    [n], output; they sum to 1
 *
 * `between` is 0, or such that the weighted squares about the mean sum to n - 1 (Paule and Mandel 1982,
 * "Consensus values and weighting factors"). The variance of the mean follows Hartung and Knapp 2001 and
 * Sidik and Jonkman 2002; it holds even if all variances are off by a common factor. */
stats_pooled_t stats_pool(const double *values, const double *variances, int n, double *weights);

/* ---- The history of a measurement: where its level changed ---- */
/* Change points of a series of measurements, by binary segmentation of its logarithms.
 *
 * The statistic of a split is t between its two levels, with outliers winsorised to two robust standard
 * deviations. p is the share of permutations whose best split is at least as clear. It covers the whole
 * series: with alpha 0.01, one in a hundred series without a change shows one. Repeating the search after
 * each new run adds false alarms.
 *
 * Permutation assumes independent values. Correlated or creeping series raise more false alarms: of histories
 * of 30 runs, some 8 % at a correlation of 0.3, 30 % at 0.6, and 70 % if the level creeps by 2.5 times the
 * noise (scripts/bench/stats_errors.c).
 *
 * Not collective; deterministic. */

typedef struct stats_change {
    int at;       /* index of the first value at the new level */
    double ratio; /* median of the new level / median of the previous */
    double p;     /* by permutation */
} stats_change_t;

typedef struct stats_change_options {
    double alpha;       /* a change requires p ≤ alpha */
    double min_effect;  /* smaller changes, by |ratio - 1|, are not reported */
    int n_permutations; /* must exceed 1 / alpha, or nothing is found; about 1000 */
    uint64_t seed;
} stats_change_options_t;

enum { STATS_CHANGE_MIN_LENGTH = 3 }; /* values per level */

/* Finds the changes of a series, in ascending order.
 *
 *   values         [n], in order of time, above 0 and finite
 *   out, capacity  changes beyond the capacity are dropped
 *   n_out          number of changes written */
err_t stats_change_points(const double *values, int n, const stats_change_options_t *options,
                          stats_change_t *out, int capacity, int *n_out);

#endif
