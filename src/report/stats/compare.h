/* SPDX-License-Identifier: MIT */
/* How two recordings of one quantity differ, and how surely. A recording is several starts of a program, each
 * with its samples in the order taken. What differs from start to start (where memory lies, say) and what
 * drifts within one make samples depend on each other: starts and blocks of samples are drawn, never single
 * samples. Not collective; deterministic.
 *
 * A side's location is the median of all its samples, each start with the same weight; ratio is now's /
 * base's. Its standard error is found by bootstrap.
 *
 * In turn each pair of starts has the median of the ratios of neighbouring batches (now's median / base's),
 * and how surely it is known follows from how those differ. With several pairs ratio and error are
 * report/stats/pool.h's, k - 1 degrees of freedom: pairs during which the machine was unquiet weigh less.
 *
 * A side of k starts, from two on: whole starts are drawn, the variance of the medians × k / (k - 1), which
 * is what drawing from so few hides (Hesterberg 2015, "What teachers should know about the bootstrap"); k - 1
 * degrees of freedom. What varies within starts is in it. Where starts are alike by chance, the variance by
 * drawing blocks within each start is the least that it can be.
 *
 * A side of one start, and a single pair in turn: blocks are drawn within it (circular block bootstrap,
 * Politis and Romano 1992), the variance × b / (b - 1) for b blocks, × what blocks hide if batches are a
 * first-order autoregression; b - 1 degrees of freedom. What differs between starts is not in it:
 * start_spread² is added (in turn: twice).
 *
 * Sides add up by Welch and Satterthwaite. p of the bootstrap is Student's t of ln(ratio), but not less than
 * twice the share of resamples on the other side of 1; the interval is Student's too, and not within the
 * resamples' percentiles. Percentiles alone are too narrow, as 3 starts give 10 different resamples; t alone
 * where starts have two levels of speed.
 *
 * What this cannot see: a drift over the whole of a recording (compare in turn), and levels of speed that
 * last as long as a start, where starts are few. scripts/bench/stats_errors.c measures how often it errs. */
#ifndef REPORT_STATS_COMPARE_H
#define REPORT_STATS_COMPARE_H

#include <stdbool.h>
#include <stdint.h>

#include "report/stats/side.h"

typedef struct stats_compare_options {
    double alpha;        /* 1 - alpha is the interval's confidence */
    double start_spread; /* standard deviation of ln(median) from start to start where a side has one start,
                            so that its own cannot be seen */
    int n_resamples;     /* from 2; where odd, swapping base and now moves low, high and p a little */
    uint64_t seed;
} stats_compare_options_t;

typedef struct stats_difference {
    double base, now; /* medians of the samples, each start with the same weight; in samples' unit */
    double ratio;     /* now / base; in turn: of the ratios of neighbouring batches, as above */
    double low, high; /* 1 - alpha confidence interval of the ratio */
    double error;     /* standard error of ln(ratio) by the same bootstrap, with what few starts hide */
    double u; /* Mann and Whitney's U of batches' medians, base's above now's counted; in turn: Wilcoxon's
         sum of the ranks of neighbours with base's above now's */
    double p_rank; /* its two-sided p, with the variance widened by (1 + ρ) / (1 - ρ) for the correlation of
                      neighbouring batches. It knows nothing of starts */
    double p;      /* two-sided, that ratio is 1: the larger of p_rank and the bootstrap's */
    int n_batches[2]; /* batches (without batch_n: samples) that U is of */
    bool assumed;     /* start_spread had to stand in */
} stats_difference_t;

/* Every number in *out is one, where there is little to know it from, too. Where it cannot be told how surely
 * the ratio is known (a side with one start of less than two blocks; in turn, no batch that both have) p is
 * 1, low 0, high and error INFINITY. base and now are in logarithms' terms: the median of an even number is
 * the geometric mean of the middle two. Swapping base and now inverts ratio, low and high, and changes
 * neither error nor p.
 *
 * interleaved: base[i] and now[i] took turns batch by batch (both have batch_n, and n_base == n_now): what
 * both met at the same time cancels. ERR_SYSTEM without memory. */
err_t stats_compare(const stats_run_t *base, int n_base, const stats_run_t *now, int n_now, bool interleaved,
                    const stats_compare_options_t *options, stats_difference_t *out);

#endif
