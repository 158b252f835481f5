/* SPDX-License-Identifier: MIT */
/* The slowest of N ranks, from samples: if the steps of ranks are independent draws x1 ≤ … ≤ xn of equal
 * probability, the largest of N is xk with probability (k/n)^N − ((k − 1)/n)^N (the distribution of the largest
 * order statistic: David and Nagaraja, Order Statistics, 2003, section 2.1). No shape is assumed. Samples know nothing
 * beyond their largest: for N near n and above, the true slowest may be slower. */
#ifndef TOOLS_FORECAST_SLOWEST_H
#define TOOLS_FORECAST_SLOWEST_H

#include <stdint.h>

/* Probability that the largest of n_ranks draws is the sample of this index.
 *
 *   index  0 … n − 1, of the sorted samples */
double slowest_probability(int64_t index, int64_t n, double n_ranks);

/* Mean of the largest of n_ranks draws; of one rank, the mean.
 *
 *   sorted  [n], ascending; n > 0 */
double slowest_mean(const double *sorted, int64_t n, double n_ranks);

#endif
