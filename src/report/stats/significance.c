/* SPDX-License-Identifier: MIT */
/* Normal, Student's t and beta distributions from erfc and a continued fraction, without a statistics library;
 * Mann-Whitney and Wilcoxon signed-rank tests, exact for few values without ties and normal otherwise; the
 * Benjamini-Hochberg correction. */
#include "report/stats/stats.h"

#include <math.h>
#include <stdlib.h>

#include "base/err.h"
#include "base/mem.h"

double stats_normal_cdf(double x)
{
    return 0.5 * erfc(-x / sqrt(2));
}

/* Continued fraction of the incomplete beta function by Lentz's method, modified by Thompson and Barnett
 * (1986). Converges fast below the distribution's mean. */
static double beta_fraction(double a, double b, double x)
{
    enum { MAX_TERMS = 100000 };
    const double tiny = 1e-300;
    double c = 1, d = 1 - (a + b) * x / (a + 1);
    d = 1 / (fabs(d) < tiny ? tiny : d);
    double value = d;
    for (int m = 1; m <= MAX_TERMS; m++) {
        double even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m));
        double odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1));
        d = 1 + even * d, c = 1 + even / c;
        d = 1 / (fabs(d) < tiny ? tiny : d), c = fabs(c) < tiny ? tiny : c;
        value *= c * d;
        d = 1 + odd * d, c = 1 + odd / c;
        d = 1 / (fabs(d) < tiny ? tiny : d), c = fabs(c) < tiny ? tiny : c;
        value *= c * d;
        if (fabs(c * d - 1) < 1e-15) break;
    }
    return value;
}

/* Regularised incomplete beta function I_x(a, b). y is 1 - x, which the caller may know more precisely. */
static double beta_cdf(double a, double b, double x, double y)
{
    if (x <= 0) return 0;
    if (y <= 0) return 1;
    double front = exp(lgamma(a + b) - lgamma(a) - lgamma(b) + a * log(x) + b * log(y));
    if (x < (a + 1) / (a + b + 2)) return front * beta_fraction(a, b, x) / a;
    return 1 - front * beta_fraction(b, a, y) / b;
}

/* P(T > t) for t ≥ 0. With many degrees of freedom the cancellation of log Γ exceeds the difference to the
 * normal distribution. */
static double t_tail(double t, double df)
{
    const double many = 1e6;
    double square = t * t;
    if (df > many) return stats_normal_cdf(-t);
    if (isinf(square)) return 0; /* below 1e-15 for any valid df */
    return 0.5 * beta_cdf(df / 2, 0.5, df / (df + square), square / (df + square));
}

double stats_t_cdf(double t, double df)
{
    ASSERT(df >= 0.1);
    return t > 0 ? 1 - t_tail(t, df) : t_tail(-t, df);
}

/* The x ≥ 0 with tail p, 0 < p ≤ 1/2, by bisection to the last bit. */
static double invert_tail(double df, double p)
{
    double low = 0, high = 1;
    while (t_tail(high, df) > p && high < 1e300) low = high, high *= 2;
    for (;;) {
        double middle = low + (high - low) / 2;
        if (middle <= low || middle >= high) return middle;
        if (t_tail(middle, df) > p)
            low = middle;
        else
            high = middle;
    }
}

double stats_t_quantile(double p, double df)
{
    ASSERT(df >= 0.1 && p > 0 && p < 1);
    if (p == 0.5) return 0;
    return p < 0.5 ? -invert_tail(df, p) : invert_tail(df, 1 - p);
}

double stats_normal_quantile(double p)
{
    return stats_t_quantile(p, INFINITY);
}

/* The x with I_x(a, b) = p. */
static double beta_quantile(double p, double a, double b)
{
    double low = 0, high = 1;
    for (;;) {
        double middle = low + (high - low) / 2;
        if (middle <= low || middle >= high) return middle;
        if (beta_cdf(a, b, middle, 1 - middle) < p)
            low = middle;
        else
            high = middle;
    }
}

void stats_proportion_interval(int64_t k, int64_t n, double alpha, double *low, double *high)
{
    ASSERT(k >= 0 && k <= n && alpha > 0 && alpha < 1);
    *low = k == 0 ? 0 : beta_quantile(alpha / 2, (double)k, (double)(n - k + 1));
    *high = k == n ? 1 : beta_quantile(1 - alpha / 2, (double)(k + 1), (double)(n - k));
}

enum { MAX_EXACT = 40 }; /* counts of rank orders, up to 2^40, are exact in a double */

/* A value to be ranked; `tag` is the caller's. */
typedef struct ranked {
    double value;
    int64_t tag;
    double rank; /* from 1; ties share their mean */
} ranked_t;

static int by_value(const void *pa, const void *pb)
{
    const ranked_t *a = pa, *b = pb;
    if (a->value < b->value || a->value > b->value) return a->value < b->value ? -1 : 1;
    return (a->tag > b->tag) - (a->tag < b->tag);
}

/* Sorts and ranks. Returns the sum of t^3 - t over groups of t ties. */
static double rank_values(ranked_t *values, int64_t n)
{
    double ties = 0;
    if (n > 1) qsort(values, (size_t)n, sizeof *values, by_value);
    for (int64_t i = 0, end; i < n; i = end) {
        for (end = i + 1; end < n && !(values[end].value > values[i].value);) end++;
        for (int64_t j = i; j < end; j++) values[j].rank = (double)(i + 1 + end) / 2;
        double t = (double)(end - i);
        ties += t * t * t - t;
    }
    return ties;
}

/* Two-sided p: twice the smaller tail at x of a distribution of counts over 0…top, at most 1. */
static double two_sided(const double *counts, int64_t top, int64_t x)
{
    double below = 0, above = 0, all = 0;
    for (int64_t i = 0; i <= top; i++) {
        all += counts[i];
        if (i <= x) below += counts[i];
        if (i >= x) above += counts[i];
    }
    return fmin(1, 2 * fmin(below, above) / all);
}

static double two_sided_normal(double x, double mean, double variance)
{
    double off = fabs(x - mean) - 0.5; /* continuity correction: u is an integer */
    if (!(variance > 0) || off <= 0) return 1;
    return fmin(1, 2 * stats_normal_cdf(-off / sqrt(variance)));
}

/* Number of orders of n_a and n_b values for each U: the coefficients of the Gaussian binomial Π (1 - q^(n_b
 * + i)) / (1 - q^i), i = 1…n_a, multiplied and divided term by term. */
static err_t exact_u(int64_t n_a, int64_t n_b, int64_t u, double *p)
{
    int64_t top = n_a * n_b;
    double *counts;
    TRY(mem_new_array(top + 1, sizeof *counts, "the distribution of U", &counts));
    counts[0] = 1;
    for (int64_t i = 1; i <= n_a; i++) {
        for (int64_t j = top; j >= n_b + i; j--) counts[j] -= counts[j - n_b - i];
        for (int64_t j = i; j <= top; j++) counts[j] += counts[j - i];
    }
    *p = two_sided(counts, top, u);
    mem_free(&counts);
    return ERR_OK;
}

err_t stats_mann_whitney(const double *a, int64_t n_a, const double *b, int64_t n_b, double *u, double *p)
{
    int64_t n = n_a + n_b;
    ranked_t *values;
    *u = 0, *p = 1;
    if (n_a == 0 || n_b == 0) return ERR_OK;
    TRY(mem_new_array(n, sizeof *values, "ranks", &values));
    for (int64_t i = 0; i < n; i++) values[i] = (ranked_t){i < n_a ? a[i] : b[i - n_a], i, 0};
    double ties = rank_values(values, n), sum = 0;
    for (int64_t i = 0; i < n; i++) sum += values[i].tag < n_a ? values[i].rank : 0;
    mem_free(&values);
    double size_a = (double)n_a, size_b = (double)n_b, size = (double)n;
    *u = sum - size_a * (size_a + 1) / 2;
    if (ties <= 0 && n <= MAX_EXACT) return exact_u(n_a, n_b, (int64_t)*u, p);
    double variance = size_a * size_b / 12 * (size + 1 - ties / (size * (size - 1)));
    *p = two_sided_normal(*u, size_a * size_b / 2, variance);
    return ERR_OK;
}

/* Number of the 2^n choices of signs for each sum of positive ranks: coefficients of Π (1 + q^i), i = 1…n. */
static err_t exact_w(int64_t n, int64_t w, double *p)
{
    int64_t top = n * (n + 1) / 2;
    double *counts;
    TRY(mem_new_array(top + 1, sizeof *counts, "the distribution of signed ranks", &counts));
    counts[0] = 1;
    for (int64_t i = 1; i <= n; i++)
        for (int64_t j = i * (i + 1) / 2; j >= i; j--) counts[j] += counts[j - i];
    *p = two_sided(counts, top, w);
    mem_free(&counts);
    return ERR_OK;
}

err_t stats_signed_rank(const double *differences, int64_t n, double *w, double *p)
{
    int64_t n_kept = 0;
    ranked_t *values;
    *w = 0, *p = 1;
    TRY(mem_new_array(n, sizeof *values, "signed ranks", &values));
    for (int64_t i = 0; i < n; i++)
        if (fabs(differences[i]) > 0) values[n_kept++] = (ranked_t){fabs(differences[i]), i, 0};
    double ties = rank_values(values, n_kept), size = (double)n_kept;
    for (int64_t i = 0; i < n_kept; i++) *w += differences[values[i].tag] > 0 ? values[i].rank : 0;
    mem_free(&values);
    if (n_kept == 0) return ERR_OK;
    if (ties <= 0 && n_kept <= MAX_EXACT) return exact_w(n_kept, (int64_t)*w, p);
    double variance = size * (size + 1) * (2 * size + 1) / 24 - ties / 48;
    *p = two_sided_normal(*w, size * (size + 1) / 4, variance);
    return ERR_OK;
}

err_t stats_benjamini_hochberg(const double *p, int n, double *q)
{
    int n_tests = 0;
    ranked_t *values;
    TRY(mem_new_array(n, sizeof *values, "false discovery rates", &values));
    for (int i = 0; i < n; i++) {
        q[i] = NAN;
        if (!isnan(p[i])) values[n_tests++] = (ranked_t){p[i], i, 0};
    }
    if (n_tests > 1) qsort(values, (size_t)n_tests, sizeof *values, by_value);
    double least = 1;
    for (int i = n_tests - 1; i >= 0; i--) {
        least = fmin(least, values[i].value * n_tests / (i + 1));
        q[values[i].tag] = least;
    }
    mem_free(&values);
    return ERR_OK;
}

double stats_detectable(const stats_difference_t *difference, double min_effect, double alpha)
{
    const double error = difference->error, df = difference->df;
    if (!isfinite(error) || !(df > 0)) return NAN;
    if (!(error > 0)) return min_effect;
    const double least = fmax(log1p(min_effect), stats_t_quantile(1 - alpha / 2, df) * error);
    return expm1(least + stats_t_quantile(0.95, df) * error);
}
