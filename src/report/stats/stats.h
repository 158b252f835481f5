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

/* ---- Two sides of a measurement ---- */
/* The ratio of two sides of one quantity and its uncertainty. A side is one or several recordings, a recording
 * several starts of a program, each with its samples in the order taken. Recordings differ (another day, a
 * reboot, another host of the type), starts differ (memory placement, for example), and samples drift within a
 * start. So samples are not independent, and the bootstrap draws whole starts or blocks of samples, never
 * single samples.
 *
 * A recording's location is a quantile of all its samples, with equal weight for each start; a side's is the
 * mean of its recordings' logarithms. ratio is now / base.
 *
 * Within a recording of several starts (k ≥ 2): draws whole starts and multiplies the variance of the locations
 * by k / (k - 1), which corrects for drawing from so few (Hesterberg 2015, "What teachers should know about the
 * bootstrap"); k - 1 degrees of freedom. This includes the variation within starts. If the starts happen to
 * agree, the variance from drawing blocks within each start is the lower bound.
 *
 * Of one start: draws blocks (circular block bootstrap, Politis and Romano 1992), multiplies the variance by
 * b / (b - 1) for b blocks and by what blocks hide if batches are a first-order autoregression; b - 1 degrees
 * of freedom. The spread of starts squared is added.
 *
 * Between recordings: s² of the recordings' locations, pooled over both sides, from STATS_MIN_RECORDINGS of a
 * side on. A side of r recordings has the variance s² / r, plus what its recordings vary within more than
 * those that s² is from. With fewer recordings the spread is assumed. Where s is below what would be assumed,
 * the interval is the narrower, and p the smaller, of what both give: s of three recordings alone would need a
 * change of 11 times s, or among five metrics of 25.
 *
 * Interleaved: base and now of a pair of starts alternated batch by batch, so what the machine does cancels,
 * between recordings too. A pair's ratio is the median of the ratios of neighbouring batches; the location is
 * the median over pairs, so a disturbed pair has no weight. Of another quantile than the median, the ratio is
 * that of the two sides' quantiles. Draws whole pairs, as above for starts.
 *
 * Sides are combined by Welch and Satterthwaite. The bootstrap's p is that of Student's t for ln(ratio), but
 * at least twice the share of resamples on the other side of 1. The interval is the union of Student's
 * interval and the percentile interval: percentiles alone are too narrow (3 starts give 10 distinct
 * resamples), t alone is too narrow if starts have two speed levels. For another quantile than the median it
 * is Student's alone, with the variance of the central 68 % of the resamples, plus that of the fastest of
 * several starts, from the spread of starts or a quarter of start_spread.
 *
 * Not detected: drift over the whole recording (use interleaving), and speed levels that last a whole start
 * if starts are few; of the fastest samples, a faster level that few starts have. scripts/bench/stats_errors.c measures the error rates.
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
    int recording; /* which one of the side; its starts follow each other */
} stats_run_t;

typedef struct stats_runs {
    const stats_run_t *at; /* [n_parts][n] */
    int n;                 /* starts */
    /* A start measured in parts (phases of a step) has a run for each, with the same batches. Its location is
     * the sum of the parts' quantiles. 1: not in parts. */
    int n_parts;
} stats_runs_t;

enum { STATS_MIN_RECORDINGS = 3 }; /* of a side, that tell how recordings differ */

/* The standard deviation of logarithms of locations. */
typedef struct stats_spread {
    double deviation;
    double df;     /* degrees of freedom; INFINITY: assumed; 0: unknown */
    double within; /* of recordings: the part of deviation² that is variance within them */
} stats_spread_t;

typedef struct stats_compare_options {
    double alpha;    /* the interval's confidence is 1 - alpha */
    double quantile; /* in (0, 1): 0.5 is the median */
    /* Assumed where nothing tells them: of one start; between recordings, 0: none. */
    double start_spread, recording_spread;
    /* Measured elsewhere, on a history of recordings; df 0: unknown. A history whose recordings have one start
     * each knows only `recordings`, which includes the starts. */
    stats_spread_t starts, recordings;
    int n_resamples; /* from 2; if odd, swapping base and now changes low, high and p slightly */
    uint64_t seed;
} stats_compare_options_t;

typedef struct stats_difference {
    double base,
        now;      /* locations; interleaved medians: of the pairs' geometric means, around which ratio is */
    double ratio; /* now / base */
    double low, high; /* 1 - alpha confidence interval of the ratio */
    double error;     /* standard error of ln(ratio) */
    double df;        /* degrees of freedom of error; 0: unknown */
    /* Mann-Whitney U of the batches' medians, counting base above now; interleaved: Wilcoxon's sum of ranks
     * of neighbours with base above now. Of parts: 0. */
    double u;
    /* Two-sided p of u, its variance widened by (1 + ρ) / (1 - ρ) for the correlation ρ of neighbouring
     * batches. It ignores the variation between starts. Of parts and of quantiles other than the median: 0. */
    double p_rank;
    double p;                  /* two-sided p of ratio = 1: the larger of p_rank and the bootstrap's */
    int n_batches[2];          /* batches in u; samples if there are no batches */
    bool assumed;              /* start_spread was added for a side without several starts of a recording */
    stats_spread_t recordings; /* the spread between recordings that was added; df 0: none */
    double measured;           /* the spread between recordings that was measured; 0: none */
    bool two_levels;           /* the samples of either side lie on two levels of speed */
} stats_difference_t;

/* Compares two sides. interleaved: base[i] and now[i] alternated batch by batch; requires batch_n and the same
 * number of starts.
 *
 * No result is NAN. If the uncertainty is unknown (a side has one start with fewer than two blocks, or no
 * interleaved batch exists on both sides; for another quantile than the median also if there is one interleaved
 * pair, or if the location at three times the quantile is a fifth above: hardly a sample was undisturbed), p is
 * 1, low 0, high and error INFINITY. Quantiles are taken of logarithms: the median of an even number of samples
 * is the geometric mean of the middle two. Swapping base and now inverts ratio, low and high and leaves error
 * and p unchanged. ERR_SYSTEM: out of memory. */
err_t stats_compare(const stats_runs_t *base, const stats_runs_t *now, bool interleaved,
                    const stats_compare_options_t *options, stats_difference_t *out);

/* The share by which now has to be slower for 95 % of such comparisons to find it: the ratio is then at least
 * 1 + min_effect, and p at most alpha. Of one metric among n, divide alpha by n: the false discovery rate may
 * require as much. NAN: the uncertainty is unknown. */
double stats_detectable(const stats_difference_t *difference, double min_effect, double alpha);

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

/* Standard deviation of residuals about fitted parameters, those beyond two robust deviations (of the median absolute
 * residual) winsorised and the result corrected for it, as of a normal distribution. Sorts the residuals by size.
 * n above n_parameters. */
double stats_winsorised_deviation(double *residuals, int n, int n_parameters);

/* A trend of the whole series, without a single date. */
typedef struct stats_drift {
    double first, last; /* the trend's values at the ends */
    double p;           /* two-sided, of no trend */
    bool is_better;     /* than the changes: by Schwarz's criterion (1978) of their residuals */
} stats_drift_t;

/* The median of all slopes between two logarithms of values (Theil 1950, Sen 1968), with Mann and Kendall's test of
 * their signs (Kendall 1975, with the correction for ties), against a level for each part between `changes`.
 * ERR_SYSTEM: out of memory. */
err_t stats_find_drift(const double *values, int n, const int *changes, int n_changes, stats_drift_t *out);

#endif
