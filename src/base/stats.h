/* SPDX-License-Identifier: MIT */
/* Order statistics of small sample sets. */
#ifndef BASE_STATS_H
#define BASE_STATS_H

#include <stdint.h>

/* Sorts in place, ascending; NaN last. */
void stats_sort(double *samples, int64_t n);

/* Quantile q in [0, 1] of sorted samples by linear interpolation between closest ranks (Hyndman & Fan 1996,
 * type 7). NaN if n is 0. */
double stats_quantile(const double *sorted, int64_t n, double q);

/* The 95 % confidence interval of the median from its order statistics: the samples of rank
 * ⌊(n − 1.96√n)/2⌋ and ⌈1 + (n + 1.96√n)/2⌉, whatever the distribution (Le Boudec 2010, "Performance
 * Evaluation of Computer and Communication Systems", theorem 2.1). −∞ and ∞ for fewer than 6 samples. */
void stats_median_interval(const double *sorted, int64_t n, double *low, double *high);

/* The upper median of an even number, which one outlier of two does not move. NaN if n is 0. Sorts the samples. */
double stats_upper_median(double *samples, int64_t n);

/* The median. Sorts the samples. */
double stats_median(double *samples, int64_t n);

#endif
