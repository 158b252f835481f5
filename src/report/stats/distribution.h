/* SPDX-License-Identifier: MIT */
/* Probabilities and quantiles of the distributions that tests need, to some 12 digits of the smaller tail
 * (Student's: 8 at 1e5 degrees of freedom, 5 above 1e6, where the normal distribution stands in). */
#ifndef REPORT_STATS_DISTRIBUTION_H
#define REPORT_STATS_DISTRIBUTION_H

#include <stdint.h>

double stats_normal_cdf(double x);
double stats_normal_quantile(double p);       /* p in (0, 1) */
double stats_t_cdf(double t, double df);      /* Student's; df from 0.1, INFINITY: the normal's */
double stats_t_quantile(double p, double df); /* p in (0, 1) */

/* Clopper and Pearson's interval of a proportion: k of n, confidence 1 - alpha (1934). */
void stats_proportion_interval(int64_t k, int64_t n, double alpha, double *low, double *high);

#endif
