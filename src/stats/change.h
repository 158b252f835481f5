/* Where a series of measurements changed its level. Not collective; deterministic. */
#ifndef STATS_CHANGE_H
#define STATS_CHANGE_H

#include <stdint.h>

#include "base/err.h"

typedef struct stats_change {
    int at;       /* index of the first value of the new level */
    double ratio; /* median of the new level / of the one before */
    double p;     /* that a series without a change has one as clear, by permutation */
} stats_change_t;

typedef struct stats_change_options {
    double alpha;      /* p above it: no change */
    double min_effect; /* of |ratio - 1|; smaller changes are not reported */
    int n_permutations;
    uint64_t seed;
} stats_change_options_t;

enum { STATS_CHANGE_MIN_LENGTH = 3 }; /* values of a level */

/* values[n], in the order of time, above 0 and finite. Changes in ascending order into out[capacity]; *n_out
 * of them. */
err_t stats_change_points(const double *values, int n, const stats_change_options_t *options,
                          stats_change_t *out, int capacity, int *n_out);

#endif
