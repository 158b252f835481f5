/* SPDX-License-Identifier: MIT */
/* Cumulative distributions and quantiles, accurate to about 12 digits of the smaller tail. Student's t: 8
 * digits at 1e5 degrees of freedom, 5 above 1e6, where the normal distribution is used. */
#ifndef REPORT_STATS_DISTRIBUTION_H
#define REPORT_STATS_DISTRIBUTION_H

#include <stdint.h>

double stats_normal_cdf(double x);
double stats_normal_quantile(double p);       /* p in (0, 1) */
double stats_t_cdf(double t, double df);      /* Student's t; df from 0.1; INFINITY: normal */
double stats_t_quantile(double p, double df); /* p in (0, 1) */

/* Confidence interval of a proportion, k of n, at confidence 1 - alpha (Clopper and Pearson 1934). */
void stats_proportion_interval(int64_t k, int64_t n, double alpha, double *low, double *high);

#endif
