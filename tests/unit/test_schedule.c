/* RUN np=0 : learning rates against values worked out by hand. */
#include <math.h>

#include "tests/tap.h"
#include "train/schedule.h"

static bool near(double a, double b)
{
    return fabs(a - b) <= 1e-14;
}

int main(void)
{
    tap_plan(11);
    schedule_t s = {.kind = SCHEDULE_CONSTANT, .base = 0.4, .n_steps = 100, .warmup_steps = 4};
    OK(near(schedule_rate(&s, 0), 0.1) && near(schedule_rate(&s, 2), 0.3), "warm-up rises in equal steps");
    OK(near(schedule_rate(&s, 3), 0.4) && near(schedule_rate(&s, 4), 0.4), "and ends at the base rate");
    OK(near(schedule_rate(&s, 99), 0.4), "constant stays");
    s.warmup_steps = 0;
    s.kind = SCHEDULE_COSINE;
    OK(near(schedule_rate(&s, 0), 0.4), "cosine begins at the base rate");
    OK(near(schedule_rate(&s, 50), 0.2), "is at half of it half-way");
    OK(near(schedule_rate(&s, 100), 0), "and ends at zero");
    OK(near(schedule_rate(&s, 25), 0.2 * (1 + sqrt(0.5))), "with the cosine between");
    OK(near(schedule_rate(&s, 1000), 0), "beyond the end it stays at zero");
    s.warmup_steps = 20;
    OK(near(schedule_rate(&s, 60), 0.2), "after warm-up the cosine spans the rest");
    s = (schedule_t){.kind = SCHEDULE_STEP, .base = 1, .n_steps = 100, .step_every = 30, .gamma = 0.1};
    OK(near(schedule_rate(&s, 29), 1) && near(schedule_rate(&s, 30), 0.1), "step drops after 30 steps");
    OK(near(schedule_rate(&s, 99), 0.001), "and again after each further 30");
    return tap_done();
}
