/* SPDX-License-Identifier: MIT */
/* Several estimates of one quantity, not equally sure, as one. Not collective. */
#ifndef REPORT_STATS_POOL_H
#define REPORT_STATS_POOL_H

typedef struct stats_pooled {
    double mean;
    double variance; /* of mean; n - 1 degrees of freedom */
    double between;  /* variance of what is estimated, from one estimate to the next */
} stats_pooled_t;

/* values[n], n from 2, with the variances that each was estimated to have, above 0. The weighted mean with
 * weights 1 / (variance + between), where `between` is such that the weighted squares about the mean add up
 * to n - 1, or 0 (Paule and Mandel 1982, "Consensus values and weighting factors"); its variance by Hartung
 * and Knapp 2001 and Sidik and Jonkman 2002, which is right too where all variances are off by one factor.
 * weights[n], adding up to 1. */
stats_pooled_t stats_pool(const double *values, const double *variances, int n, double *weights);

#endif
