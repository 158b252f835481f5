/* SPDX-License-Identifier: MIT */
/* Random-effects mean of several estimates (Paule and Mandel 1982; variance after Hartung and Knapp). */
#include "report/stats/pool.h"

#include <math.h>

#include "base/err.h"

/* Sets weights, their sum and the mean. Returns the weighted squares about it. */
static double weighted_mean(const double *values, const double *variances, int n, double between,
                            double *weights, double *mean, double *sum)
{
    double squares = 0;
    *mean = *sum = 0;
    for (int i = 0; i < n; i++) {
        weights[i] = 1 / (variances[i] + between);
        *sum += weights[i];
    }
    for (int i = 0; i < n; i++) *mean += weights[i] / *sum * values[i];
    for (int i = 0; i < n; i++) squares += weights[i] * (values[i] - *mean) * (values[i] - *mean);
    return squares;
}

stats_pooled_t stats_pool(const double *values, const double *variances, int n, double *weights)
{
    enum { HALVINGS = 100 };
    stats_pooled_t out = {0};
    double centre = 0, low = 0, high = 0, sum;
    ASSERT(n > 1);
    /* With `between` at the values' own variance, the weighted squares are at most n - 1. */
    for (int i = 0; i < n; i++) centre += values[i] / n;
    for (int i = 0; i < n; i++) high += (values[i] - centre) * (values[i] - centre) / (n - 1);
    if (weighted_mean(values, variances, n, 0, weights, &out.mean, &sum) > n - 1) {
        for (int i = 0; i < HALVINGS; i++) {
            out.between = (low + high) / 2;
            if (weighted_mean(values, variances, n, out.between, weights, &out.mean, &sum) > n - 1)
                low = out.between;
            else
                high = out.between;
        }
    }
    double squares = weighted_mean(values, variances, n, out.between, weights, &out.mean, &sum);
    out.variance = squares / (n - 1) / sum;
    for (int i = 0; i < n; i++) weights[i] /= sum;
    return out;
}
