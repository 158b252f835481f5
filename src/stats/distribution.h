/* Probabilities and quantiles of the distributions that tests need. */
#ifndef STATS_DISTRIBUTION_H
#define STATS_DISTRIBUTION_H

#include <stdint.h>

double stats_normal_cdf(double x);
double stats_normal_quantile(double p);       /* p in (0, 1) */
double stats_t_cdf(double t, double df);      /* Student's; df > 0 */
double stats_t_quantile(double p, double df);

/* Clopper and Pearson's interval of a proportion: k of n, confidence 1 - alpha (1934). */
void stats_proportion_interval(int64_t k, int64_t n, double alpha, double *low, double *high);

#endif
