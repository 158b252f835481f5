/* Order statistics of small sample sets. */
#ifndef BASE_STATS_H
#define BASE_STATS_H

#include <stdint.h>

/* Sorts in place, ascending; NaN last. */
void stats_sort(double *samples, int64_t n);

/* Quantile q in [0, 1] of sorted samples by linear interpolation between closest ranks (Hyndman & Fan 1996,
 * type 7). NaN when n is 0. */
double stats_quantile(const double *sorted, int64_t n, double q);

/* Median; sorts the samples. */
double stats_median(double *samples, int64_t n);

#endif
