/* SPDX-License-Identifier: MIT */
/* Pooling of several estimates of one quantity with different variances. Not collective. */
#ifndef REPORT_STATS_POOL_H
#define REPORT_STATS_POOL_H

typedef struct stats_pooled {
    double mean;
    double variance; /* of mean; n - 1 degrees of freedom */
    double between;  /* variance between the estimated quantities */
} stats_pooled_t;

/* Random-effects mean with weights 1 / (variance + between).
 *
 *   values     [n], n ≥ 2
 *   variances  [n], above 0
 *   weights    [n], output; they sum to 1
 *
 * `between` is 0, or such that the weighted squares about the mean sum to n - 1 (Paule and Mandel 1982,
 * "Consensus values and weighting factors"). The variance of the mean follows Hartung and Knapp 2001 and
 * Sidik and Jonkman 2002; it holds even if all variances are off by a common factor. */
stats_pooled_t stats_pool(const double *values, const double *variances, int n, double *weights);

#endif
