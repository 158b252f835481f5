/* SPDX-License-Identifier: MIT */
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
#ifndef REPORT_STATS_COMPARE_H
#define REPORT_STATS_COMPARE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

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

#endif
