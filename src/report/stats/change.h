/* SPDX-License-Identifier: MIT */
/* Where a series of measurements changed its level: binary segmentation of the logarithms. A split is as
 * clear as the t between its two levels, outliers winsorised to two (robust) standard deviations; p is the
 * share of permutations of the same values whose clearest split is as clear, and holds for the whole series:
 * alpha 0.01 is one false alarm in a hundred series looked at once. Looking after each new run adds some.
 *
 * Permutations are alike only where values are independent. Where one run goes on as the one before it did,
 * or the level creeps, there are more alarms: of histories of 30 runs with a correlation of 0.3 some 8 % have
 * one, of 0.6 30 %, of those that creep by 2.5 times their noise 70 % (scripts/bench/stats_errors.c). Not
 * collective; deterministic. */
#ifndef REPORT_STATS_CHANGE_H
#define REPORT_STATS_CHANGE_H

#include <stdint.h>

#include "base/err.h"

typedef struct stats_change {
    int at;       /* index of the first value of the new level */
    double ratio; /* median of the new level / of the one before */
    double p;     /* that a series without a change has one as clear, by permutation */
} stats_change_t;

typedef struct stats_change_options {
    double alpha;       /* p above it: no change */
    double min_effect;  /* of |ratio - 1|; smaller changes are not reported */
    int n_permutations; /* above 1 / alpha, or nothing is found; some 1000 */
    uint64_t seed;
} stats_change_options_t;

enum { STATS_CHANGE_MIN_LENGTH = 3 }; /* values of a level */

/* values[n], in the order of time, above 0 and finite. Changes in ascending order into out[capacity]; *n_out
 * of them. */
err_t stats_change_points(const double *values, int n, const stats_change_options_t *options,
                          stats_change_t *out, int capacity, int *n_out);

#endif
