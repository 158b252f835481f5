/* SPDX-License-Identifier: MIT */
/* The slowest of N ranks, from samples. */
#include "tools/forecast/slowest.h"

#include <math.h>

double slowest_probability(int64_t index, int64_t n, double n_ranks)
{
    return pow((double)(index + 1) / (double)n, n_ranks) - pow((double)index / (double)n, n_ranks);
}

double slowest_mean(const double *sorted, int64_t n, double n_ranks)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += slowest_probability(i, n, n_ranks) * sorted[i];
    return sum;
}
