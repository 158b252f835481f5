/* SPDX-License-Identifier: MIT */
/* RUN np=0 : learning rates and plateaus against values worked out by hand. */
#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "tests/tap.h"
#include "train/learn/schedule.h"

static bool near(double a, double b)
{
    return fabs(a - b) <= 1e-14;
}

static void test_rates(void)
{
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
    s = (schedule_t){
        .kind = SCHEDULE_POLYNOMIAL, .base = 0.8, .n_steps = 110, .warmup_steps = 10, .power = 2};
    OK(near(schedule_rate(&s, 9), 0.8) && near(schedule_rate(&s, 10), 0.8),
       "polynomial begins at the base rate after warm-up");
    OK(near(schedule_rate(&s, 60), 0.2) && near(schedule_rate(&s, 85), 0.05),
       "falls as the square of what is left");
    OK(near(schedule_rate(&s, 110), 0) && near(schedule_rate(&s, 500), 0), "and ends at zero");
    s.power = 1;
    OK(near(schedule_rate(&s, 35), 0.6), "power 1 is a straight line");
    s = (schedule_t){
        .kind = SCHEDULE_PLATEAU, .base = 1, .n_steps = 100, .warmup_steps = 4, .warmup_from = 0.25};
    OK(near(schedule_rate(&s, 0), 0.4375) && near(schedule_rate(&s, 1), 0.625) &&
           near(schedule_rate(&s, 3), 1),
       "warm-up from a quarter of the rate");
    OK(near(schedule_rate(&s, 4), 1) && near(schedule_rate(&s, 99), 1), "plateau alone stays constant");
}

typedef struct epoch {
    double metric, scale;
    bool dropped;
} epoch_t;

/* patience 2, factor 0.5, threshold 0.1, not below 0.2. */
static const epoch_t epochs[] = {
    {5, 1, false},         /* the first is the best */
    {4, 1, false},         /* better */
    {3.95, 1, false},      /* not by more than the threshold: bad, 1 */
    {3.8, 1, false},       /* better than 4 - 0.1 */
    {9, 1, false},         /* bad, 1 */
    {NAN, 0.5, true},      /* bad, 2 */
    {9, 0.5, false},       /* counts from 0 again */
    {3.6, 0.5, false},     /* better */
    {3.55, 0.5, false},    /* bad, 1 */
    {3.52, 0.25, true},    /* bad, 2 */
    {7, 0.25, false},      /* bad, 1 */
    {INFINITY, 0.2, true}, /* bad, 2; 0.125 is below the floor */
    {7, 0.2, false},       /* bad, 1 */
    {7, 0.2, false},       /* bad, 2, but at the floor already */
    {1, 0.2, false},       /* never up again */
};
enum { N_EPOCHS = sizeof epochs / sizeof epochs[0] };

static bool follows(schedule_plateau_t *p, int first, int end)
{
    for (int e = first; e < end; e++) {
        bool dropped = schedule_plateau_update(p, epochs[e].metric);
        if (dropped == epochs[e].dropped && near(p->scale, epochs[e].scale)) continue;
        printf("# epoch %d, metric %g: scale %g\n", e, epochs[e].metric, p->scale);
        return false;
    }
    return true;
}

static void test_plateau(void)
{
    const schedule_plateau_t start = {
        .factor = 0.5, .threshold = 0.1, .min_scale = 0.2, .patience = 2, .best = INFINITY, .scale = 1};
    schedule_plateau_t whole = start;
    OK(follows(&whole, 0, N_EPOCHS), "plateau: a run worked out by hand");
    int broken = 0;
    for (int cut = 0; cut <= N_EPOCHS; cut++) {
        schedule_plateau_t first = start, second = start;
        bool good = follows(&first, 0, cut);
        second.best = first.best, second.n_bad_epochs = first.n_bad_epochs, second.scale = first.scale;
        good = good && follows(&second, cut, N_EPOCHS) && second.best == whole.best &&
               second.n_bad_epochs == whole.n_bad_epochs;
        broken += !good;
    }
    OK(broken == 0, "and the same when it is cut anywhere and goes on from its three values");
    schedule_plateau_t p = start;
    p.patience = 1, p.threshold = 0;
    bool good = !schedule_plateau_update(&p, 1) && schedule_plateau_update(&p, 1);
    OK(good && near(p.scale, 0.5),
       "patience 1: one epoch without progress is enough, and an equal one is none");
    p.min_scale = 3;
    OK(!schedule_plateau_update(&p, 1) && near(p.scale, 0.5), "a floor above the rate does not raise it");
}

static err_t make(const char *text, schedule_run_t run, schedule_t *s, schedule_plateau_t *p)
{
    schedule_options_t options = {0};
    char *storage = NULL;
    opt_group_t group = {"Schedule", schedule_option_table, n_schedule_options, &options, 0};
    err_t err = opt_defaults(&group, 1);
    if (err == ERR_OK) err = opt_config_read(&group, 1, text, "the test", &storage);
    if (!(options.lr > 0)) options.lr = 0.25;
    if (err == ERR_OK) err = schedule_make(&options, &run, s, p);
    mem_free(&storage);
    return err;
}

static void test_options(void)
{
    const schedule_run_t run = {.steps_per_epoch = 10, .n_steps = 100, .batch = 128, .n_ranks = 2};
    schedule_t s;
    schedule_plateau_t p;
    OK_CALL(make("", run, &s, &p), "options: all defaults");
    OK(s.kind == SCHEDULE_COSINE && s.base == 0.25 && s.n_steps == 100 && s.warmup_steps == 0 &&
           p.scale == 1 && isinf(p.best),
       "cosine from the rate, whatever the batch");
    OK_CALL(make("lr = 0.5\nlr-scale = linear\nlr-batch = 32\nwarmup = 0.4\nschedule = step\nlr-step = 2.5",
                 run, &s, &p),
            "linear scaling with warm-up");
    OK(near(schedule_rate(&s, 0), 0.5 + 1.5 / 4) && near(schedule_rate(&s, 3), 2),
       "rises from the rate of a quarter of the batch to that of the batch");
    OK(near(schedule_rate(&s, 24), 2) && near(schedule_rate(&s, 25), 0.2), "and drops after 2.5 epochs");
    OK_CALL(make("lr = 0.5\nlr-scale = linear\nlr-batch = 512\nwarmup-steps = 4", run, &s, &p),
            "a batch smaller than --lr is for");
    OK(s.scale == 0.25 && near(schedule_rate(&s, 0), 0.125) && near(schedule_rate(&s, 3), 0.125),
       "lowers the rate, to which warm-up does not fall from above");
    OK_CALL(make("lr = 0.5\nlr-scale = linear", run, &s, &p), "a run from before --lr-batch");
    OK(s.scale == 2 && s.base == 1, "keeps the rate of its ranks");
    OK_CALL(make("lr = 0.5\nschedule = plateau\nmin-lr = 0.1\nplateau-patience = 3\nplateau-factor = 0.3",
                 run, &s, &p),
            "plateau");
    OK(s.kind == SCHEDULE_PLATEAU && near(p.min_scale, 0.2) && p.patience == 3 && p.factor == 0.3 &&
           p.threshold == 0.0001,
       "has what its options say");
    OK_CALL(make("schedule = polynomial\nlr-power = 3", run, &s, &p), "polynomial");
    OK(s.kind == SCHEDULE_POLYNOMIAL && near(schedule_rate(&s, 50), 0.25 / 8), "with its power");
    OK(make("warmup = 10", run, &s, &p) == ERR_USAGE && strstr(err_message(), "--warmup 10"),
       "warm-up as long as the run: %s", err_message());
    OK_CALL(make("lr = 0.5\nschedule = step\nlr-milestones = 2,4.5\nwarmup-steps = 4\nwarmup-from = 0.1", run,
                 &s, &p),
            "milestones, and warm-up in steps");
    OK(near(schedule_rate(&s, 0), 0.5 * (0.1 + 0.9 / 4)) && near(schedule_rate(&s, 4), 0.5),
       "warm-up from a tenth of the rate in four steps");
    OK(near(schedule_rate(&s, 19), 0.5) && near(schedule_rate(&s, 20), 0.05) &&
           near(schedule_rate(&s, 44), 0.05) && near(schedule_rate(&s, 45), 0.005) &&
           near(schedule_rate(&s, 99), 0.005),
       "reductions at the milestones alone");
    static const char *const wrong[][2] = {
        {"lr-milestones = 2", "--schedule step"},
        {"schedule = step\nlr-milestones = 3,2", "'3,2'"},
        {"schedule = step\nlr-milestones = 3,", "'3,'"},
        {"schedule = step\nlr-milestones = 1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17", "more than 16"},
        {"warmup = 1\nwarmup-steps = 9", "exclude"},
        {"warmup-steps = 100", "--warmup-steps is 100 steps"}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        OK(make(wrong[i][0], run, &s, &p) == ERR_USAGE && strstr(err_message(), wrong[i][1]), "refused: %s",
           err_message());
    OK(make("lr = 0", run, &s, &p) == ERR_USAGE && strstr(err_message(), "lr"), "a rate of zero: %s",
       err_message());
}

int main(void)
{
    tap_plan(17 + 4 + 15 + 9 + 1);
    test_rates();
    test_plateau();
    test_options();
    OK(mem_live() == 0, "every block was freed");
    return tap_done();
}
