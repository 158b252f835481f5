/* SPDX-License-Identifier: MIT */
/* RUN np=0
 *
 * Estimates pooled: against values worked out elsewhere (SciPy's root finder on Paule and Mandel's equation).
 */
#include <math.h>

#include "report/stats/stats.h"
#include "tests/tap.h"

enum { N = 6 };
static const double values[N] = {0.02, 0.08, 0.05, -0.22, 0.061, 0.047};
static const double variances[N] = {1e-4, 4e-4, 2e-4, 9e-2, 3e-4, 1e-4};

static bool near(double a, double b)
{
    bool is_near = fabs(a - b) <= 1e-6 * fabs(b);
    if (!is_near) printf("# %.17g, but %.17g was wanted\n", a, b);
    return is_near;
}

static double sum_of(const double *weights)
{
    double sum = 0;
    for (int i = 0; i < N; i++) sum += weights[i];
    return sum;
}

int main(void)
{
    double weights[N], wide[N], exact[N], alike[N];
    tap_plan(8);
    stats_pooled_t p = stats_pool(values, variances, N, weights);
    OK(near(p.mean, 0.047182896939001094) && near(p.between, 0.00024193921065896728) &&
           near(p.variance, 8.676161648145373e-05),
       "what is not sure hardly counts: %.4f", p.mean);
    OK(fabs(weights[3] - 0.00096143) < 1e-8 && near(sum_of(weights), 1), "its weight is %.5f", weights[3]);
    for (int i = 0; i < N; i++) wide[i] = 100 * variances[i];
    p = stats_pool(values, wide, N, weights);
    OK(near(p.mean, 0.04282420749279539) && p.between <= 0,
       "variances that explain all differences: nothing is between");
    OK(near(p.variance, 0.0032420749279538905 * 0.02193018251681076), "how sure the mean is, the values say");

    double mean = 0, squares = 0;
    for (int i = 0; i < N; i++) mean += values[i] / N;
    for (int i = 0; i < N; i++) squares += (values[i] - mean) * (values[i] - mean) / (N - 1);
    for (int i = 0; i < N; i++) exact[i] = 1e-20;
    p = stats_pool(values, exact, N, weights);
    OK(near(p.mean, mean) && near(p.between, squares) && near(p.variance, squares / N),
       "exact values: their own variance, and Student's");
    OK(near(weights[0], 1.0 / N) && near(weights[3], 1.0 / N), "all weigh alike");
    for (int i = 0; i < N; i++) alike[i] = 0.5;
    p = stats_pool(alike, variances, N, weights);
    OK(near(p.mean, 0.5) && p.between <= 0, "equal values are their mean");
    OK(p.variance <= 0, "and nothing says that it is not known");
    return tap_done();
}
