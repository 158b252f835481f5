/* SPDX-License-Identifier: MIT */
/* Sorting, quantiles, and a median with its 95 % interval from order statistics. Tests and the bootstrap are
 * in report/stats. */
#include "base/stats.h"

#include <math.h>
#include <stdlib.h>

static int compare_samples(const void *pa, const void *pb)
{
    double a = *(const double *)pa, b = *(const double *)pb;
    if (isnan(a) || isnan(b)) return isnan(a) - isnan(b);
    return (a > b) - (a < b);
}

void stats_sort(double *samples, int64_t n)
{
    if (n > 1) qsort(samples, (size_t)n, sizeof *samples, compare_samples);
}

double stats_quantile(const double *sorted, int64_t n, double q)
{
    if (n <= 0) return NAN;
    double position = q * (double)(n - 1);
    int64_t low = (int64_t)position;
    int64_t high = low + 1 < n ? low + 1 : low;
    double part = position - (double)low;
    /* With infinite samples, 0 × inf and inf - inf would give NaN. */
    if (part <= 0 || sorted[high] <= sorted[low]) return sorted[low];
    return sorted[low] + part * (sorted[high] - sorted[low]);
}

void stats_median_interval(const double *sorted, int64_t n, double *low, double *high)
{
    *low = -INFINITY;
    *high = INFINITY;
    if (n < 6) return;
    double half = 1.96 * sqrt((double)n);
    int64_t first = (int64_t)floor(((double)n - half) / 2), last = (int64_t)ceil(1 + ((double)n + half) / 2);
    *low = sorted[(first < 1 ? 1 : first) - 1];
    *high = sorted[(last > n ? n : last) - 1];
}

double stats_upper_median(double *samples, int64_t n)
{
    stats_sort(samples, n);
    return n > 0 ? samples[n / 2] : NAN;
}

double stats_median(double *samples, int64_t n)
{
    stats_sort(samples, n);
    return stats_quantile(samples, n, 0.5);
}
