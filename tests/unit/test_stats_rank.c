/* SPDX-License-Identifier: MIT */
/* RUN np=0
 *
 * Rank tests against SciPy 1.17's, and many tests at once against Benjamini and Hochberg's own example. */
#include "tests/tap.h"

#include <math.h>

#include "base/mem.h"
#include "report/stats/stats.h"

static bool near(double a, double b)
{
    bool is_near = fabs(a - b) <= 1e-12 * fabs(b);
    if (!is_near) printf("# %.17g, but %.17g was wanted\n", a, b);
    return is_near;
}

static void check_u(const double *a, int n_a, const double *b, int n_b, double want_u, double want_p,
                    const char *what)
{
    double u, p, u_swapped, p_swapped;
    OK_CALL(stats_mann_whitney(a, n_a, b, n_b, &u, &p), "U of %s", what);
    OK(near(u, want_u) && near(p, want_p), "its value and p");
    stats_mann_whitney(b, n_b, a, n_a, &u_swapped, &p_swapped);
    OK(near(u_swapped, n_a * n_b - u) && near(p_swapped, p),
       "swapped, U is the other pairs' number, p the same");
}

static void check_mann_whitney(void)
{
    static const double small_a[] = {1.1, 2.3, 3.7, 4.2, 9.9}, small_b[] = {0.4, 2.2, 5.5, 6.1, 7.3, 8.8};
    static const double low[] = {1, 2, 3, 4, 5}, high[] = {6, 7, 8, 9, 10};
    static const double tied_a[] = {1, 2, 2, 3, 5, 5, 5, 8}, tied_b[] = {2, 4, 5, 6, 7, 8, 9};
    static const double same[] = {4, 4, 4, 4};
    double a[30], b[30];
    check_u(small_a, 5, small_b, 6, 13, 0.7922077922077921, "5 and 6");
    check_u(low, 5, high, 5, 0, 0.007936507936507936, "5 and 5 that do not overlap");
    check_u(tied_a, 8, tied_b, 7, 15, 0.14254859342114648, "8 and 7 with ties");
    check_u(same, 4, same, 4, 8, 1, "numbers that are all the same");
    for (int i = 1; i <= 20; i++) a[i - 1] = i * i % 41 + 0.1 * i, b[i - 1] = i * i * i % 37 + 0.1 * i + 0.05;
    check_u(a, 20, b, 20, 218, 0.639513882406952, "20 and 20, the most that are counted exactly");
    for (int i = 0; i < 30; i++) a[i] = 0.1 * i, b[i] = 0.1 * i + 0.55;
    check_u(a, 30, b, 25, 300, 0.20792927248164417, "30 and 25");
    double u, p;
    stats_mann_whitney(a, 30, NULL, 0, &u, &p);
    OK(near(u, 0) && near(p, 1), "an empty side: p is 1");
}

static void check_w(const double *differences, int n, double want_w, double want_p, const char *what)
{
    double w, p;
    OK_CALL(stats_signed_rank(differences, n, &w, &p), "signed ranks of %s", what);
    OK(near(w, want_w) && near(p, want_p), "their sum and p");
}

static void check_signed_rank(void)
{
    static const double eight[] = {0.5, -1.1, 2.2, 3.3, -0.4, 5.1, 6.2, 7.7};
    static const double tied[] = {1, 1, -1, 2, 0, -2, 3, 3, 4, 5}, zeros[] = {0, 0, 0};
    double many[60];
    for (int i = 1; i <= 60; i++) many[i - 1] = i % 3 ? i : -i + 0.5;
    check_w(eight, 8, 32, 0.0546875, "eight differences");
    check_w(many, 25, 217, 0.14847958087921143, "25, counted exactly");
    check_w(many, 60, 1200, 0.03622649417878663, "60, by the normal distribution");
    check_w(tied, 10, 38.5, 0.06488884618515063, "ten with ties and a zero");
    check_w(zeros, 3, 0, 1, "zeros");
    check_w(NULL, 0, 0, 1, "none");
}

static void check_benjamini_hochberg(void)
{
    /* Thrombolysis, table of section 3.2 of their paper (1995), in another order. */
    static const double p[] = {0.3240, 0.0001, 0.0004, 0.0019, 1.0,    0.0095, 0.0201, 0.0278,
                               NAN,    0.0298, 0.0344, 0.0459, 0.4262, 0.5719, 0.6528, 0.7590};
    static const double want[] = {0.486,
                                  0.0015,
                                  0.003,
                                  0.0095,
                                  1.0,
                                  0.035625,
                                  0.0603,
                                  0.06385714285714286,
                                  NAN,
                                  0.06385714285714286,
                                  0.0645,
                                  0.07650000000000001,
                                  0.58118181818181818,
                                  0.7148749999999999,
                                  0.7532307692307693,
                                  0.8132142857142857};
    double q[16], one = 0.03;
    bool same = true;
    int n_found = 0;
    OK_CALL(stats_benjamini_hochberg(p, 16, q), "15 tests and one that was none");
    for (int i = 0; i < 16; i++) {
        same = same && (isnan(want[i]) ? isnan(q[i]) : near(q[i], want[i]));
        if (q[i] <= 0.05) n_found++;
    }
    OK(same, "q in the tests' own order; NAN does not count");
    OK(n_found == 4, "four are found at 5 %%, as in the paper");
    OK_CALL(stats_benjamini_hochberg(&one, 1, q), "one test");
    OK(near(q[0], 0.03), "its q is its p");
    OK_CALL(stats_benjamini_hochberg(NULL, 0, NULL), "no tests at all");
}

int main(void)
{
    tap_plan(6 * 3 + 1 + 6 * 2 + 6 + 1);
    check_mann_whitney();
    check_signed_rank();
    check_benjamini_hochberg();
    OK(mem_live() == 0, "no memory is left");
    return tap_done();
}
