/* SPDX-License-Identifier: MIT */
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
#ifndef REPORT_STATS_CHANGE_H
#define REPORT_STATS_CHANGE_H

#include <stdint.h>

#include "base/err.h"

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
