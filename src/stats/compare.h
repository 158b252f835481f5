/* How two recordings of one quantity differ, and how surely. A recording is several starts of a program, each
 * with its samples in the order taken. What differs from start to start (where memory lies, say) and what
 * drifts within one make samples depend on each other: starts and blocks of samples are drawn, never single
 * samples. Not collective; deterministic.
 *
 * A side's location is the median of all its samples, each start with the same weight; ratio is now's /
 * base's. In turn it is the median of the ratios of neighbouring batches (now's median / base's), each pair
 * of starts with the same weight. Its standard error is found by bootstrap, of each side:
 * - from two starts on, whole starts are drawn: the variance of the medians × k / (k - 1) for k starts, which
 * is what drawing from so few hides (Hesterberg 2015, "What teachers should know about the bootstrap"), with
 * k - 1 degrees of freedom. It holds what varies within starts too; where starts are alike by chance, the
 * variance by drawing blocks within each start stands in as the least that can be;
 * - with one start, blocks are drawn within it (circular block bootstrap, Politis and Romano 1992): the
 * variance × b / (b - 1) for b blocks, × what blocks hide if batches are a first-order autoregression, with b
 * - 1 degrees of freedom. What differs between starts is not in it: start_spread squared is added (in turn:
 * twice). Sides add up by Welch and Satterthwaite. p of the bootstrap and the interval are Student's t on
 * ln(ratio); an interval of percentiles would be too narrow here, as 3 starts give 10 different resamples.
 *
 * What this cannot see: a drift over the whole of a recording (compare in turn), and levels of speed that
 * last longer than a start, where starts are few (results of scripts/bench/stats_errors.c). */
#ifndef STATS_COMPARE_H
#define STATS_COMPARE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

typedef struct stats_run {
    const double *samples; /* [n], above 0 and finite, in the order taken; borrowed */
    int64_t n;             /* from 1 */
    /* Samples of each batch of a few that were taken in a row, adding up to n; 0: none of it is kept. NULL:
     * blocks are of samples. */
    const int32_t *batch_n;
    int n_batches;
} stats_run_t;

typedef struct stats_compare_options {
    double alpha;        /* 1 - alpha is the interval's confidence */
    double start_spread; /* standard deviation of ln(median) from start to start where a side has one start,
                            so that its own cannot be seen */
    int n_resamples;
    uint64_t seed;
} stats_compare_options_t;

typedef struct stats_difference {
    double base, now; /* medians of the samples, each start with the same weight; in samples' unit */
    double ratio;     /* now / base; in turn: the median of the ratios of neighbouring batches */
    double low, high; /* 1 - alpha confidence interval of the ratio */
    double error;     /* standard error of ln(ratio) by the same bootstrap, with what few starts hide */
    double u,
        p_rank; /* Mann and Whitney's U of blocks' medians, base's above now's counted, and its two-sided p */
    double p;   /* two-sided, that ratio is 1: the larger of p_rank and the bootstrap's */
    int n_blocks[2]; /* that U is of */
    bool assumed;    /* start_spread had to stand in */
} stats_difference_t;

/* in_turn: base[i] and now[i] took turns batch by batch (both have batch_n, and n_base == n_now): what both
 * met at the same time cancels. ERR_SYSTEM without memory. */
err_t stats_compare(const stats_run_t *base, int n_base, const stats_run_t *now, int n_now, bool in_turn,
                    const stats_compare_options_t *options, stats_difference_t *out);

#endif
