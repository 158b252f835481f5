/* SPDX-License-Identifier: MIT */
/* Rank tests, the correction for many tests, and distributions. Not collective. */
#ifndef REPORT_STATS_SIGNIFICANCE_H
#define REPORT_STATS_SIGNIFICANCE_H

#include <stdint.h>

#include "base/err.h"

/* Mann-Whitney test. *u is the number of pairs with a above b, ties counted as a half; *p is two-sided, 1 if
 * a side is empty. Exact without ties up to n_a + n_b = 40, otherwise a normal approximation corrected for
 * ties and continuity. ERR_SYSTEM: out of memory. */
err_t stats_mann_whitney(const double *a, int64_t n_a, const double *b, int64_t n_b, double *u, double *p);

/* Wilcoxon signed-rank test that paired differences are symmetric about 0 (Wilcoxon 1945). *w is the sum of
 * ranks of positive differences; zeros are dropped. Exact without ties up to n = 40. */
err_t stats_signed_rank(const double *differences, int64_t n, double *w, double *p);

/* Benjamini-Hochberg (1995): q[i] is the smallest false discovery rate at which test i is significant. A test
 * with p NAN does not count and gets q NAN. */
err_t stats_benjamini_hochberg(const double *p, int n, double *q);

/* Cumulative distributions and quantiles, accurate to about 12 digits of the smaller tail. Student's t: 8
 * digits at 1e5 degrees of freedom, 5 above 1e6, where the normal distribution is used. */
double stats_normal_cdf(double x);
double stats_normal_quantile(double p);       /* p in (0, 1) */
double stats_t_cdf(double t, double df);      /* Student's t; df from 0.1; INFINITY: normal */
double stats_t_quantile(double p, double df); /* p in (0, 1) */

/* Confidence interval of a proportion, k of n, at confidence 1 - alpha (Clopper and Pearson 1934). */
void stats_proportion_interval(int64_t k, int64_t n, double alpha, double *low, double *high);

#endif
