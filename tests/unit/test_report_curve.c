/* SPDX-License-Identifier: MIT */
/* RUN np=0
 *
 * The course of a loss, cut to what can be drawn: nothing of the extremes is lost, what was repeated after a
 * crash counts once, and a short run is kept step by step. */
#include "tests/tap.h"

#include <math.h>

#include "base/mem.h"
#include "report/records/report.h"

static arena_t arena;

static double falling(int64_t step)
{
    return 2 / (1 + 0.001 * (double)step);
}

static void check_short(void)
{
    curve_t curve = {0};
    bool same = true;
    err_t err = ERR_OK;
    for (int64_t step = 3; step < 50 && err == ERR_OK; step++) err = curve_add(&curve, step, falling(step));
    OK_CALL(err, "47 steps");
    OK_CALL(curve_finish(&curve, &arena), "a short run");
    for (int i = 0; i < curve.n; i++) {
        double loss = falling(3 + i);
        same &= fabs(curve.at[i].step - (3 + i)) < 1e-9 && fabs(curve.at[i].low - loss) < 1e-12 &&
                fabs(curve.at[i].median - loss) < 1e-12 && fabs(curve.at[i].high - loss) < 1e-12;
    }
    OK(same && curve.n == 47 && !curve.losses, "is kept step by step: %d", curve.n);
    OK_CALL(curve_finish(&curve, &arena), "and finished once");
}

static void check_long(void)
{
    enum { N = 12345 };
    curve_t curve = {0};
    bool ordered = true;
    err_t err = ERR_OK;
    for (int64_t step = 0; step < N && err == ERR_OK; step++)
        err = curve_add(&curve, step, step == 7000 ? 99 : step == 7001 ? 1e-9 : falling(step));
    OK_CALL(err, "a long run");
    OK_CALL(curve_finish(&curve, &arena), "is cut");
    OK(curve.n == CURVE_MAX, "to as many stretches as there may be: %d", curve.n);
    double low = INFINITY, high = 0;
    for (int i = 0; i < curve.n; i++) {
        const curve_point_t *at = &curve.at[i];
        low = fmin(low, at->low);
        high = fmax(high, at->high);
        ordered &= at->low <= at->median && at->median <= at->high && (i == 0 || at->step > at[-1].step);
        /* The middle is that of the curve, whatever single steps did. */
        ordered &= fabs(at->median / falling((int64_t)at->step) - 1) < 0.01;
    }
    OK(ordered, "in order, true in the middle");
    OK(high > 98 && low < 1e-8, "with what single steps did: %g, %g", low, high);
    OK(curve.at[0].step < 70 && curve.at[curve.n - 1].step > N - 70, "from its beginning to its end");
}

static void check_trouble(void)
{
    static const double losses[] = {4, 3, NAN, 2, INFINITY, 1};
    curve_t curve = {0};
    for (int i = 0; i < 6; i++) OK_CALL(curve_add(&curve, i, losses[i]), "a loss of %g", losses[i]);
    for (int i = 3; i < 5; i++) OK_CALL(curve_add(&curve, i, 7), "again step %d", i);
    OK_CALL(curve_finish(&curve, &arena), "a run that crashed and diverged");
    OK(curve.n == 4 && curve.n_invalid == 1, "later steps count, and what is no number is counted: %d, %d",
       curve.n, (int)curve.n_invalid);
    OK(fabs(curve.at[2].step - 3) < 1e-9 && fabs(curve.at[3].median - 7) < 1e-9,
       "as they were the last time");
    curve_t none = {0}, bad = {0};
    OK_CALL(curve_finish(&none, &arena), "nothing");
    OK_CALL(curve_add(&bad, 5, NAN), "a loss that is none");
    OK_CALL(curve_finish(&bad, &arena), "and no other");
    OK(none.n == 0 && bad.n == 0 && bad.n_invalid == 1, "is no curve");
    OK_CALL(curve_add(&bad, INT64_MAX - 1, 1), "steps without measure");
    OK_CALL(curve_add(&bad, INT64_MAX, 1), "and the one behind");
    curve_free(&bad);
}

int main(void)
{
    tap_plan(28);
    check_short();
    check_long();
    check_trouble();
    arena_free(&arena);
    OK(mem_live() == 0, "everything is given back");
    return tap_done();
}
