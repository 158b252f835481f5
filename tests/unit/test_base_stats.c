/* SPDX-License-Identifier: MIT */
/* RUN np=0
 *
 * Order statistics against values worked by hand (type 7, as R's quantile and NumPy's percentile). */
#include "tests/tap.h"

#include <math.h>

#include "base/stats.h"

static bool near(double a, double b)
{
    return fabs(a - b) <= 1e-12;
}

static void check_sort(void)
{
    double samples[] = {3, NAN, -1, INFINITY, 2, NAN, -INFINITY};
    stats_sort(samples, 7);
    OK(isinf(samples[0]) && samples[0] < 0 && near(samples[1], -1) && near(samples[2], 2) &&
           near(samples[3], 3),
       "numbers are ascending");
    OK(isinf(samples[4]) && isnan(samples[5]) && isnan(samples[6]), "infinity, then NaN, are last");
}

static void check_quantiles(void)
{
    const double sorted[] = {1, 2, 4, 8};
    OK(near(stats_quantile(sorted, 4, 0), 1), "quantile 0 is the smallest");
    OK(near(stats_quantile(sorted, 4, 1), 8), "quantile 1 is the largest");
    OK(near(stats_quantile(sorted, 4, 0.5), 3), "quantile 0.5 lies between the middle two");
    OK(near(stats_quantile(sorted, 4, 0.25), 1.75), "quantile 0.25 is 1.75");
    OK(near(stats_quantile(sorted, 4, 0.9), 6.8), "quantile 0.9 is 6.8");
    OK(near(stats_quantile(sorted, 1, 0.3), 1), "one sample is every quantile");
    OK(isnan(stats_quantile(sorted, 0, 0.5)), "no samples give NaN");
    const double infinite[] = {1, INFINITY, INFINITY};
    OK(near(stats_quantile(infinite, 3, 0), 1),
       "an infinite neighbour does not spoil a quantile at a sample");
    OK(isinf(stats_quantile(infinite, 3, 0.75)), "between two infinite samples it is infinite");
    const double missing[] = {1, NAN};
    OK(isnan(stats_quantile(missing, 2, 0.5)), "a part of NaN is NaN");
}

static void check_median(void)
{
    double odd[] = {9, 1, 5}, even[] = {4, 1, 3, 2};
    OK(near(stats_median(odd, 3), 5), "the median of three unsorted samples");
    OK(near(stats_median(even, 4), 2.5), "the median of four unsorted samples");
    OK(isnan(stats_median(NULL, 0)), "the median of none is NaN");
}

static void check_interval(void)
{
    double sorted[100], low, high;
    for (int i = 0; i < 100; i++) sorted[i] = i + 1;
    stats_median_interval(sorted, 5, &low, &high);
    OK(isinf(low) && low < 0 && isinf(high), "five samples have no interval for the median");
    stats_median_interval(sorted, 6, &low, &high);
    OK(near(low, 1) && near(high, 6), "six: the smallest to the largest, which hold it in 97 %% of cases");
    stats_median_interval(sorted, 20, &low, &high);
    OK(near(low, 5) && near(high, 16), "twenty: from the 5th to the 16th");
    stats_median_interval(sorted, 100, &low, &high);
    OK(near(low, 40) && near(high, 61), "a hundred: from the 40th to the 61st");
}

int main(void)
{
    tap_plan(19);
    check_sort();
    check_quantiles();
    check_median();
    check_interval();
    return tap_done();
}
