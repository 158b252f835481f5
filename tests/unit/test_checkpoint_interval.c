/* SPDX-License-Identifier: MIT */
/* RUN np=0
 * Young's interval between checkpoints, from costs that vary, and durations. */
#include <math.h>

#include "tests/tap.h"
#include "text/opt.h"
#include "train/guard/checkpoint_interval.h"

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
    OK(opt_duration("6h", &sec) && near(sec, 21600) && opt_duration("1.5m", &sec) && near(sec, 90) &&
           opt_duration("2d", &sec) && near(sec, 172800) && opt_duration("10s", &sec) && near(sec, 10),
       "durations");
    OK(!opt_duration("6", &sec) && !opt_duration("h", &sec) && !opt_duration("-1h", &sec) &&
           !opt_duration("0s", &sec) && !opt_duration("6hh", &sec) && !opt_duration("6 h", &sec) &&
           !opt_duration("infd", &sec) && !opt_duration("", &sec),
       "what is none");
}

int main(void)
{
    tap_plan(6);
    test_interval();
    return tap_done();
}
