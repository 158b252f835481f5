/* SPDX-License-Identifier: MIT */
/* Rank tests, and the correction for many tests. Not collective. */
#ifndef REPORT_STATS_RANK_H
#define REPORT_STATS_RANK_H

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

#endif
