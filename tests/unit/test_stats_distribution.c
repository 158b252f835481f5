/* SPDX-License-Identifier: MIT */
/* RUN np=0
 *
 * Probabilities and quantiles against SciPy 1.17's; the low end of 1 of 100000 is 1 - 0.975^(1/100000). */
#include "tests/tap.h"

#include <math.h>

#include "report/stats/stats.h"

static bool near(double a, double b, double tolerance)
{
    bool is_near = fabs(a - b) <= tolerance * fabs(b);
    if (!is_near) printf("# %.17g, but %.17g was wanted\n", a, b);
    return is_near;
}

static void check_normal(void)
{
    OK(near(stats_normal_cdf(-8), 6.22096057427174e-16, 1e-12) &&
           near(stats_normal_cdf(-1.5), 0.06680720126885807, 1e-12) &&
           near(stats_normal_cdf(0.3), 0.6179114221889526, 1e-12) &&
           near(stats_normal_cdf(3), 0.9986501019683699, 1e-12),
       "the normal distribution, far out too");
    OK(near(stats_normal_quantile(0.975), 1.959963984540054, 1e-12) &&
           near(stats_normal_quantile(1e-12), -7.034483825301131, 1e-12) &&
           near(stats_normal_quantile(0.3), -0.5244005127080409, 1e-12) &&
           near(stats_normal_quantile(0.999999), 4.753424308817087, 1e-9) &&
           fabs(stats_normal_quantile(0.5)) <= 0,
       "its quantiles");
}

static void check_t(void)
{
    static const struct {
        double t, df, below;
    } cdf[] = {{0.5, 1, 0.6475836176504333},
               {2, 3, 0.9303370157205785},
               {-3.1, 4.7, 0.014582807110575368},
               {12, 2, 0.9965635331614208},
               {1e-3, 0.3, 0.5002293190872311},
               {-40, 7, 7.951089992425182e-10},
               {2.5, 1e6, 0.9937902552489184},
               {-INFINITY, 3, 0},
               {INFINITY, 3, 1},
               {0, 2.5, 0.5}};
    static const struct {
        double p, df, t;
    } quantiles[] = {{0.995, 2, 9.924843200918287},       {0.995, 14, 2.9768427343708344},
                     {0.025, 4.6, -2.6392916097470027},   {0.9995, 1, 636.6192487687897},
                     {0.6, 0.5, 0.3979754267847907},      {1e-10, 9, -30.737330949971977},
                     {0.975, INFINITY, 1.959963984540054}};
    for (size_t i = 0; i < sizeof cdf / sizeof *cdf; i++)
        OK(near(stats_t_cdf(cdf[i].t, cdf[i].df), cdf[i].below, 1e-11),
           "Student's t up to %g with %g degrees of freedom", cdf[i].t, cdf[i].df);
    for (size_t i = 0; i < sizeof quantiles / sizeof *quantiles; i++)
        OK(near(stats_t_quantile(quantiles[i].p, quantiles[i].df), quantiles[i].t, 1e-10),
           "its quantile %g with %g degrees of freedom", quantiles[i].p, quantiles[i].df);
    for (int digits = 5; digits < 18; digits++) {
        double df = pow(10, digits);
        OK(near(stats_t_cdf(-2.5, df), 0.006209665325776132, 15 / df + 2e-5) &&
               near(stats_t_quantile(0.995, df), 2.5758293035489004, 3 / df + 2e-5),
           "Student's t with 1e%d degrees of freedom is the normal distribution", digits);
    }
}

static void check_proportions(void)
{
    static const struct {
        int64_t k, n;
        double alpha, low, high;
    } cases[] = {{0, 20, 0.05, 0, 0.16843347098308548},
                 {20, 20, 0.05, 0.8315665290169145, 1},
                 {3, 40, 0.05, 0.015742179851041527, 0.20386474873289898},
                 {10, 1000, 0.01, 0.003726782924252683, 0.02127605875361651},
                 {1, 100000, 0.05, 2.5317804781438e-07, 5.571516034432556e-05},
                 {0, 0, 0.05, 0, 1}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        double low, high;
        stats_proportion_interval(cases[i].k, cases[i].n, cases[i].alpha, &low, &high);
        OK(near(low, cases[i].low, 1e-8) && near(high, cases[i].high, 1e-8),
           "Clopper and Pearson's interval of %d of %d", (int)cases[i].k, (int)cases[i].n);
    }
}

int main(void)
{
    tap_plan(2 + 17 + 13 + 6);
    check_normal();
    check_t();
    check_proportions();
    return tap_done();
}
