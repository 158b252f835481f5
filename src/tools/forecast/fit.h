/* SPDX-License-Identifier: MIT */
/* α and B from measured allreduces, by least squares of the relative errors: Σ ((t − Σ m_r α_r − Σ b_r / B_r) / t)²,
 * where m_r and b_r are the messages and bytes of a range of message sizes (network.h). The ranges, up to three, are
 * those with the least corrected Akaike criterion, n ln(RSS / n) + 2k + 2k (k + 1) / (n − k − 1) (Hurvich and Tsai 1989,
 * Biometrika 76: 297). Ring or tree is chosen by the same criterion if the points tell them apart. Standard errors come
 * from the covariance s² (XᵀX)⁻¹, plus the errors of the points themselves; intervals are Student's. */
#ifndef TOOLS_FORECAST_FIT_H
#define TOOLS_FORECAST_FIT_H

#include "base/err.h"
#include "base/rng.h"
#include "tools/forecast/network.h"

/* Median time of an allreduce. */
typedef struct fit_point {
    double n_hosts, n_bytes, sec;
    double error; /* standard error of the median / median */
} fit_point_t;

typedef struct fit {
    network_t network;
    bool algorithm_measured;  /* otherwise assumed */
    double refused_alpha_sec; /* below zero, but its interval is not: α counts as 0. 0: α is as fitted */
    int n_points;
    double max_hosts;
    double residual; /* root mean square of the relative errors */
    double covariance_factor[NETWORK_MAX_TERMS][NETWORK_MAX_TERMS]; /* Cholesky, of α1, 1/B1, α2, … */
    double error[NETWORK_MAX_TERMS];                                /* standard errors, in the same order */
    double student; /* 95 % quantile of Student's distribution for the points */
} fit_t;

enum { FIT_MIN_POINTS = 3 };

/* Fits. `assumed` is the algorithm if the points do not tell.
 *
 *   points  between 2 hosts and more, at least FIT_MIN_POINTS sizes
 *
 * ERR_DATA if there are fewer, or if α or B is below zero beyond its error: the message says which sizes to measure. */
err_t fit_network(const fit_point_t *points, int n, network_algorithm_t assumed, fit_t *out);

/* A network as likely as the fitted one: normal errors of α and 1/B, neither below a hundredth of the fitted value.
 * If the algorithm is assumed, it is the other one in half of the draws. */
network_t fit_draw(const fit_t *fit, rng_t *rng);

/* 90 % interval of α and B of a range. */
void fit_interval(const fit_t *fit, int range, double alpha_sec[2], double bytes_per_sec[2]);

#endif
