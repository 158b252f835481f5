/* SPDX-License-Identifier: MIT */
/* Rank tests and many of them at once. Not collective. */
#ifndef REPORT_STATS_RANK_H
#define REPORT_STATS_RANK_H

#include <stdint.h>

#include "base/err.h"

/* Mann and Whitney's U, the number of pairs with a above b (ties: a half), and its two-sided p: exact where
 * there are no ties and n_a + n_b ≤ 40, otherwise by the normal approximation with corrections for ties and
 * continuity. p is 1 where a side is empty. ERR_SYSTEM without memory. */
err_t stats_mann_whitney(const double *a, int64_t n_a, const double *b, int64_t n_b, double *u, double *p);

/* Wilcoxon's signed-rank test that paired differences are symmetric about 0: *w is the sum of ranks above 0;
 * zeros are dropped (Wilcoxon 1945). Exact without ties up to n = 40. */
err_t stats_signed_rank(const double *differences, int64_t n, double *w, double *p);

/* q[i]: least false discovery rate at which i is found among the n tests (Benjamini and Hochberg 1995). NAN
 * where p[i] is NAN, which does not count as a test. */
err_t stats_benjamini_hochberg(const double *p, int n, double *q);

#endif
