/* SPDX-License-Identifier: MIT */
/* RUN np=0
 *
 * Change points of series whose changes are known. Measured error rates are scripts/bench/stats_errors's. */
#include "tests/tap.h"

#include <math.h>

#include "base/mem.h"
#include "base/rng.h"
#include "report/stats/stats.h"

enum { MAX_N = 60, MAX_CHANGES = 8 };
static const stats_change_options_t options = {
    .alpha = 0.01, .min_effect = 0.01, .n_permutations = 999, .seed = 3};
static double values[MAX_N];
static stats_change_t found[MAX_CHANGES];

static bool near(double a, double b, double tolerance)
{
    bool is_near = fabs(a - b) <= tolerance * fabs(b);
    if (!is_near) printf("# %.17g, but %.17g was wanted\n", a, b);
    return is_near;
}

static void make(int n, double sd, uint64_t seed)
{
    rng_t rng = rng_new(seed, RNG_TEST, 1);
    for (int i = 0; i < n; i++) values[i] = 1e-3 * exp(sd * rng_normal(&rng));
}

static void scale(int from, int to, double ratio)
{
    for (int i = from; i < to; i++) values[i] *= ratio;
}

static int look(int n)
{
    int n_found = -1;
    if (stats_change_points(values, n, &options, found, MAX_CHANGES, &n_found) != ERR_OK)
        printf("# %s\n", err_message());
    return n_found;
}

static void check_steps(void)
{
    make(30, 0.005, 1);
    OK(look(30) == 0, "no change, none found");
    scale(24, 30, 1.02);
    OK(look(30) == 1 && abs(found[0].at - 24) <= 1, "2 %% slower for the last six of thirty runs");
    OK(near(found[0].ratio, 1.02, 0.005) && found[0].p > 0 && found[0].p <= 0.01, "its ratio and p");
    stats_change_t first = found[0];
    OK(look(30) == 1 && found[0].at == first.at && found[0].p == first.p && found[0].ratio == first.ratio,
       "the same series gives the same");
    make(30, 0.005, 1), scale(24, 30, 1 / 1.02);
    OK(look(30) == 1 && near(found[0].ratio, 1 / 1.02, 0.005), "2 %% faster");
    make(45, 0.005, 2), scale(15, 30, 1.05), scale(35, 45, 0.9);
    OK(look(45) == 3 && abs(found[0].at - 15) <= 1 && abs(found[1].at - 30) <= 1 &&
           abs(found[2].at - 35) <= 1,
       "three changes, in the order of time");
    OK(near(found[0].ratio, 1.05, 0.01) && near(found[1].ratio, 1 / 1.05, 0.01) &&
           near(found[2].ratio, 0.9, 0.01),
       "each against the level before it");
    int n_found;
    OK_CALL(stats_change_points(values, 45, &options, found, 2, &n_found), "with room for two");
    OK(n_found == 2 && abs(found[1].at - 30) <= 1, "the first two are there");
}

static void check_small(void)
{
    make(40, 0.0005, 3), scale(20, 40, 1.005);
    OK(look(40) == 0, "half a percent is less than the least that is reported");
    scale(30, 40, 1.02);
    OK(look(40) == 1 && found[0].at == 30, "2 %% after it is reported");
    OK(near(found[0].ratio, 1.0248, 0.0005), "against both levels before it, which count as one");
}

static void check_outliers(void)
{
    make(30, 0.005, 4);
    values[12] *= 1.5, values[20] *= 0.7;
    OK(look(30) == 0, "single outliers are no change");
    scale(28, 30, 1.3);
    OK(look(30) == 0, "nor are the last two runs, which may be outliers too");
    make(30, 0.005, 4), scale(22, 30, 1.03);
    values[12] *= 1.5, values[27] *= 0.7;
    OK(look(30) == 1 && abs(found[0].at - 22) <= 1, "and they hide none");
}

/* Seven deviations high, with noise right before it that is as far up as single values are winsorised to. */
static void check_place(void)
{
    int n_exact = 0;
    for (uint64_t i = 0; i < 20; i++) {
        make(30, 0.003, 50 + i), scale(24, 30, 1.02);
        values[22] = 1.006e-3, values[23] = 1.007e-3;
        n_exact += look(30) == 1 && found[0].at == 24;
    }
    OK(n_exact >= 19, "%d of 20 late changes are where they are", n_exact);
    /* Both levels have the same median, and most values are on it. */
    stats_change_options_t any = options;
    any.min_effect = 0;
    make(60, 0, 1);
    for (int i = 48; i < 58; i += 2) values[i] *= 1.5;
    int n_found;
    OK_CALL(stats_change_points(values, 60, &any, found, MAX_CHANGES, &n_found), "one value of two higher");
    OK(n_found == 1 && found[0].at == 48, "is a change where it begins");
}

static void check_constant(void)
{
    make(30, 0, 5);
    OK(look(30) == 0, "a series that never varies");
    scale(20, 30, 1.1);
    OK(look(30) == 1 && found[0].at == 20 && near(found[0].ratio, 1.1, 1e-12), "two levels without noise");
    OK(look(2 * STATS_CHANGE_MIN_LENGTH - 1) == 0 && look(1) == 0 && look(0) == 0,
       "too short for two levels");
    make(30, 0.005, 6), scale(20, 30, 1.1);
    values[28] = 1e300, values[3] = 1e-300;
    OK(look(30) == 1 && found[0].at == 20 && near(found[0].ratio, 1.1, 0.01),
       "values at the ends of what there is");
}

/* A trend, against the changes that are found in it, and a change, against its trend. */
static void check_drift(void)
{
    int n_drifts = 0, n_steps = 0, n_none = 0, at[MAX_CHANGES];
    stats_drift_t drift;
    for (uint64_t i = 0; i < 20; i++) {
        make(30, 0.004, 200 + i);
        for (int k = 0; k < 30; k++) values[k] *= exp(0.03 * k / 29);
        int n = look(30);
        for (int k = 0; k < n; k++) at[k] = found[k].at;
        if (stats_find_drift(values, 30, at, n, &drift) != ERR_OK) exit(4);
        n_drifts += n > 0 && drift.is_better && drift.p < 0.001 && near(drift.last / drift.first, 1.03, 0.01);
        make(30, 0.004, 200 + i), scale(15, 30, 1.03);
        n = look(30);
        for (int k = 0; k < n; k++) at[k] = found[k].at;
        if (stats_find_drift(values, 30, at, n, &drift) != ERR_OK) exit(4);
        n_steps += n == 1 && !drift.is_better;
        make(30, 0.004, 300 + i);
        if (stats_find_drift(values, 30, at, 0, &drift) != ERR_OK) exit(4);
        n_none += drift.p > 0.01;
    }
    OK(n_drifts >= 19, "%d of 20 drifts of 3 %% are drifts", n_drifts);
    OK(n_steps == 20, "%d of 20 steps of 3 %% are steps", n_steps);
    OK(n_none >= 18, "%d of 20 series without either have no trend", n_none);
    make(30, 0, 1);
    OK_CALL(stats_find_drift(values, 30, at, 0, &drift), "a series that never varies");
    OK(!drift.is_better && drift.p >= 1 && near(drift.first, drift.last, 1e-12), "has none");
    OK_CALL(stats_find_drift(values, 3, at, 0, &drift), "three values");
    OK(!drift.is_better && drift.p >= 1, "do not tell");
}

static void check_alarms(void)
{
    enum { SERIES = UNDER_SANITIZER ? 20 : 200 };
    int n_alarms = 0;
    for (uint64_t i = 0; i < SERIES; i++) {
        make(30, 0.008, 100 + i);
        n_alarms += look(30) > 0;
    }
    OK(n_alarms <= 7, "%d of %d series without a change gave an alarm", n_alarms, (int)SERIES);
}

int main(void)
{
    tap_plan(9 + 3 + 3 + 3 + 4 + 7 + 1 + 1);
    check_steps();
    check_small();
    check_outliers();
    check_place();
    check_constant();
    check_drift();
    check_alarms();
    OK(mem_live() == 0, "no memory is left");
    return tap_done();
}
