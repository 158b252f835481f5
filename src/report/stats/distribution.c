/* SPDX-License-Identifier: MIT */
/* Normal, Student's t and beta distributions from erfc and a continued fraction, without a statistics
 * library. */
#include "report/stats/distribution.h"

#include <math.h>

#include "base/err.h"

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
