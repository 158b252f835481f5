/* SPDX-License-Identifier: MIT */
/* RUN np=0
 * Young's interval between checkpoints, from costs that vary, and durations. */
#include <math.h>

#include "tests/tap.h"
#include "train/run/checkpoint_interval.h"

static bool near(double a, double b)
{
    return fabs(a - b) < 1e-5;
}

static void test_interval(void)
{
    double sec = 0;
    checkpoint_costs_t costs = {0};
    OK(near(young_interval_sec(2, 3600), 120), "sqrt(2 C M)");
    OK(near(young_interval_sec(1000, 600), 1000) && near(young_interval_sec(400, 600), 600), "bounds");
    const double each[] = {2, 50, 2, 2};
    for (int i = 0; i < 4; i++) checkpoint_interval_add(&costs, each[i], 3600);
    OK(near(costs.usual_sec, 2) && near(costs.interval_sec, 120), "one long write changes nothing");
    for (int i = 0; i < CHECKPOINT_COSTS; i++) checkpoint_interval_add(&costs, 8, 3600);
    OK(near(costs.usual_sec, 8) && near(costs.interval_sec, 240), "costs that last do");
    OK(duration_parse("6h", &sec) && near(sec, 21600) && duration_parse("1.5m", &sec) && near(sec, 90) &&
           duration_parse("2d", &sec) && near(sec, 172800) && duration_parse("10s", &sec) && near(sec, 10),
       "durations");
    OK(!duration_parse("6", &sec) && !duration_parse("h", &sec) && !duration_parse("-1h", &sec) &&
           !duration_parse("0s", &sec) && !duration_parse("6hh", &sec) && !duration_parse("6 h", &sec) &&
           !duration_parse("infd", &sec) && !duration_parse("", &sec),
       "what is none");
}

int main(void)
{
    tap_plan(6);
    test_interval();
    return tap_done();
}
