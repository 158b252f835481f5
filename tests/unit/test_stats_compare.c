/* SPDX-License-Identifier: MIT */
/* RUN np=0
 *
 * Two recordings: what is found, what not, what is known where there is little to know it from, and that it
 * does not depend on which comes first, on the unit or on anything but the samples. Measured error rates are
 * scripts/bench/stats_errors's. */
#include "tests/tap.h"

#include <math.h>

#include "base/mem.h"
#include "base/rng.h"
#include "report/stats/stats.h"

enum { STARTS = 8, BATCHES = 20, PER_BATCH = 5, SAMPLES = BATCHES * PER_BATCH };
static const stats_compare_options_t options = {
    .alpha = 0.01, .quantile = 0.5, .start_spread = 0.02, .n_resamples = 400, .seed = 7};

typedef struct recording {
    double samples[STARTS][SAMPLES];
    stats_run_t runs[STARTS];
} recording_t;
static recording_t base, now;
static int32_t fives[BATCHES];

static bool near(double a, double b, double tolerance)
{
    bool is_near = fabs(a - b) <= tolerance * fabs(b);
    if (!is_near) printf("# %.17g, but %.17g was wanted\n", a, b);
    return is_near;
}

/* Starts that differ by `spread`, noise of 1 %; slow[b]: the batch took 1.6 times as long. */
static void record(recording_t *r, double level, double spread, bool (*slow)[BATCHES], uint64_t seed)
{
    rng_t rng = rng_new(seed, RNG_TEST, 0);
    for (int b = 0; b < BATCHES; b++) fives[b] = PER_BATCH;
    for (int s = 0; s < STARTS; s++) {
        double start = level * exp(spread * rng_normal(&rng));
        for (int i = 0; i < SAMPLES; i++)
            r->samples[s][i] =
                start * exp(0.01 * rng_normal(&rng)) * (slow && slow[s][i / PER_BATCH] ? 1.6 : 1);
        r->runs[s] = (stats_run_t){r->samples[s], SAMPLES, fives, BATCHES, 0};
    }
}

static stats_difference_t compare_with(const stats_run_t *a, int n_a, const stats_run_t *b, int n_b,
                                       bool interleaved, const stats_compare_options_t *with)
{
    stats_difference_t d;
    const stats_runs_t sides[2] = {{a, n_a, 1}, {b, n_b, 1}};
    memset(&d, 0, sizeof d);
    if (stats_compare(&sides[0], &sides[1], interleaved, with, &d) != ERR_OK) printf("# %s\n", err_message());
    return d;
}

static stats_difference_t compare(const stats_run_t *a, int n_a, const stats_run_t *b, int n_b,
                                  bool interleaved)
{
    return compare_with(a, n_a, b, n_b, interleaved, &options);
}

static bool is_number(const stats_difference_t *d)
{
    return d->base > 0 && d->now > 0 && d->ratio > 0 && d->low <= d->ratio && d->high >= d->ratio &&
           d->error >= 0 && d->u >= 0 && d->p_rank >= 0 && d->p_rank <= 1 && d->p >= d->p_rank && d->p <= 1;
}

static void check_found(void)
{
    record(&base, 1e-3, 0.005, NULL, 1), record(&now, 1e-3, 0.005, NULL, 2);
    for (int interleaved = 0; interleaved < 2; interleaved++) {
        stats_difference_t d = compare(base.runs, STARTS, now.runs, STARTS, interleaved);
        OK(is_number(&d) && d.p > 0.05 && d.low < 1 && d.high > 1 && !d.assumed, "the same%s: p is %.2f",
           interleaved ? " in turn" : "", d.p);
        OK(near(d.base, 1e-3, 0.01) && near(d.now, 1e-3, 0.01), "each side's median");
        OK(d.error > 0.001 && d.error < 0.01, "its standard error, %.4f, is about what starts differ by / 2",
           d.error);
    }
    record(&now, 1.05e-3, 0.005, NULL, 2);
    for (int interleaved = 0; interleaved < 2; interleaved++) {
        stats_difference_t d = compare(base.runs, STARTS, now.runs, STARTS, interleaved);
        OK(is_number(&d) && d.p < 1e-4 && d.low > 1.02 && d.low < 1.05 && d.high > 1.05 && d.high < 1.08,
           "5 %% slower%s: %.3f to %.3f, p is %.1e", interleaved ? " in turn" : "", d.low, d.high, d.p);
        OK(d.u < (interleaved ? 1000 : 5000) && d.n_batches[0] == STARTS * BATCHES &&
               d.n_batches[1] == STARTS * BATCHES,
           "U, of batches, says so too");
    }
}

/* The machine's two levels of speed: in turn they cancel. */
static void check_in_turn(void)
{
    bool slow[STARTS][BATCHES], other[STARTS][BATCHES];
    rng_t rng = rng_new(3, RNG_TEST, 0);
    for (int i = 0; i < STARTS * BATCHES; i++) {
        int s = i / BATCHES, b = i % BATCHES;
        slow[s][b] = b == 0 || rng_below(&rng, 10) == 0 ? rng_below(&rng, 2) == 1 : slow[s][b - 1];
        other[s][b] = b == 0 || rng_below(&rng, 10) == 0 ? rng_below(&rng, 2) == 1 : other[s][b - 1];
    }
    record(&base, 1, 0.002, slow, 4), record(&now, 1.03, 0.002, slow, 5);
    stats_difference_t d = compare(base.runs, STARTS, now.runs, STARTS, true);
    OK(is_number(&d) && d.p < 0.001 && near(d.ratio, 1.03, 0.01), "3 %% is found in turn where speeds jump");
    OK(near(d.now / d.base, d.ratio, 1e-12), "base and now are those of the pairs");
    d = compare(base.runs, 1, now.runs, 1, true);
    OK(is_number(&d) && near(d.now / d.base, d.ratio, 1e-12), "so they are with one pair");
    record(&now, 1.03, 0.002, other, 5);
    d = compare(base.runs, STARTS, now.runs, STARTS, false);
    OK(is_number(&d) && d.p > 0.05 && d.high / d.low > 1.2,
       "apart it is not, and the interval says why: %.2f to %.2f", d.low, d.high);

    record(&base, 1, 0.01, slow, 4);
    memcpy(now.samples, base.samples, sizeof now.samples);
    for (int i = 0; i < STARTS * SAMPLES; i++) now.samples[i / SAMPLES][i % SAMPLES] *= 1.07;
    d = compare(base.runs, STARTS, now.runs, STARTS, true);
    OK(near(d.ratio, 1.07, 1e-12) && near(d.low, 1.07, 1e-9) && near(d.high, 1.07, 1e-9) && d.p < 1e-6,
       "batches that differ by the same: exactly this ratio");
    OK(near(d.now / d.base, 1.07, 1e-12), "base and now of the pairs differ by this ratio");

    static const double sample[] = {1, 2};
    static const int32_t first[] = {2, 0}, second[] = {0, 2};
    stats_run_t a = {sample, 2, first, 2, 0}, b = {sample, 2, second, 2, 0};
    d = compare(&a, 1, &b, 1, true);
    OK(is_number(&d) && d.p >= 1 && d.low <= 0 && isinf(d.high) && near(d.ratio, 1, 1e-12) &&
           d.n_batches[0] == 0,
       "no batch that both have: nothing is known");
}

static void check_symmetry(void)
{
    record(&base, 1, 0.01, NULL, 6), record(&now, 1.01, 0.003, NULL, 7);
    for (int interleaved = 0; interleaved < 2; interleaved++) {
        int n_now = interleaved ? STARTS : 5;
        stats_difference_t d = compare(base.runs, STARTS, now.runs, n_now, interleaved);
        stats_difference_t again = compare(base.runs, STARTS, now.runs, n_now, interleaved);
        stats_difference_t swapped = compare(now.runs, n_now, base.runs, STARTS, interleaved);
        OK(d.ratio == again.ratio && d.low == again.low && d.high == again.high && d.error == again.error &&
               d.p == again.p && d.u == again.u,
           "the same samples give the same%s", interleaved ? " in turn" : "");
        OK(near(swapped.ratio, 1 / d.ratio, 1e-12) && near(swapped.low, 1 / d.high, 1e-12) &&
               near(swapped.high, 1 / d.low, 1e-12),
           "swapped, the ratio and its interval are inverted");
        OK(near(swapped.p, d.p, 1e-9) && near(swapped.error, d.error, 1e-9) &&
               near(swapped.p_rank, d.p_rank, 1e-9),
           "error and p stay");
    }
    stats_difference_t d = compare(base.runs, STARTS, now.runs, STARTS, false), other;
    stats_compare_options_t other_seed = options;
    other_seed.seed = 8;
    other = compare_with(base.runs, STARTS, now.runs, STARTS, false, &other_seed);
    OK(other.ratio == d.ratio && other.error != d.error && near(other.error, d.error, 0.2),
       "only the error moves a little");
    for (int i = 0; i < STARTS * SAMPLES; i++) {
        base.samples[i / SAMPLES][i % SAMPLES] *= 1e-9;
        now.samples[i / SAMPLES][i % SAMPLES] *= 1e-9;
    }
    other = compare(base.runs, STARTS, now.runs, STARTS, false);
    OK(near(other.ratio, d.ratio, 1e-12) && near(other.p, d.p, 1e-9) && near(other.error, d.error, 1e-9),
       "the unit does not matter");
}

static void check_little(void)
{
    static const double one = 1, slower = 1.05;
    stats_run_t single[STARTS], single_slower[STARTS];
    for (int s = 0; s < STARTS; s++)
        single[s] = (stats_run_t){&one, 1, NULL, 0, 0},
        single_slower[s] = (stats_run_t){&slower, 1, NULL, 0, 0};
    stats_difference_t d = compare(single, 1, single_slower, 1, false);
    OK(is_number(&d) && d.p >= 1 && d.low <= 0 && isinf(d.high) && near(d.ratio, 1.05, 1e-12) && d.assumed,
       "one sample each: the ratio is known, not how surely");
    d = compare(single, STARTS, single_slower, STARTS, false);
    OK(is_number(&d) && d.p < 0.01 && near(d.low, 1.05, 1e-12) && near(d.high, 1.05, 1e-12) && !d.assumed,
       "eight starts with the same one sample each, and eight with another");
    d = compare(single, STARTS, single, STARTS, false);
    OK(is_number(&d) && d.p >= 1 && near(d.low, 1, 1e-12) && near(d.high, 1, 1e-12) && d.error <= 0,
       "samples that never vary");

    record(&base, 1, 0, NULL, 8), record(&now, 1.05, 0, NULL, 9);
    stats_compare_options_t sure = options;
    sure.start_spread = 0;
    stats_difference_t seen = compare_with(base.runs, 1, now.runs, 1, false, &sure);
    d = compare(base.runs, 1, now.runs, 1, false);
    OK(is_number(&seen) && seen.p < 0.01 && seen.low > 1 && seen.assumed,
       "5 %% is found if starts never differ");
    OK(is_number(&d) && d.p > 0.01 && d.low < 1 && d.error > 0.02 * sqrt(2),
       "but not if they differ by 2 %%");
    d = compare(base.runs, 1, now.runs, 1, true);
    OK(is_number(&d) && d.p > 0.01 && d.error > 0.02 * sqrt(2), "nor in turn");
    d = compare(base.runs, STARTS, now.runs, 1, false);
    OK(is_number(&d) && d.assumed && d.error > 0.02 && d.error < 0.025,
       "one start on one side: its share alone is assumed");
    for (int n = 1; n <= 7; n++) {
        int32_t all = n;
        stats_run_t a = {base.samples[0], n, NULL, 0, 0}, b = {now.samples[0], n, &all, 1, 0};
        stats_difference_t e = compare(&a, 1, &b, 1, false), f = compare(&b, 1, &b, 1, true);
        if (!is_number(&e) || !is_number(&f)) printf("# %d samples\n", n), d.p = NAN;
    }
    OK(!isnan(d.p), "one to seven samples, and all in one batch: every number is one");
}

static void check_weights(void)
{
    double fast[4] = {1, 1, 1, 1}, slow[SAMPLES];
    int32_t with_gaps[] = {0, 2, 0, 0, 2, 0};
    for (int i = 0; i < SAMPLES; i++) slow[i] = 3;
    stats_run_t runs[] = {
        {fast, 4, NULL, 0, 0}, {slow, SAMPLES, fives, BATCHES, 0}, {fast, 4, with_gaps, 6, 0}};
    stats_difference_t d = compare(runs, 3, runs, 2, false);
    OK(is_number(&d) && near(d.base, 1, 1e-12), "two short starts outweigh a long one");
    OK(near(d.now, sqrt(3), 1e-12), "one of each: the middle of both, of logarithms");
    record(&base, 1, 0.01, NULL, 10), record(&now, 1, 0.01, NULL, 11);
    int32_t gaps[BATCHES];
    for (int b = 0; b < BATCHES; b++) gaps[b] = b % 3 ? PER_BATCH : 0;
    for (int s = 0; s < STARTS; s += 2)
        now.runs[s] = (stats_run_t){now.samples[s], SAMPLES - 7 * PER_BATCH, gaps, BATCHES, 0};
    d = compare(base.runs, STARTS, now.runs, STARTS, true);
    OK(is_number(&d) && d.p > 0.01 && d.n_batches[0] == STARTS * BATCHES - STARTS / 2 * 7,
       "batches that were dropped are no neighbours of anything");
    now.runs[1] = (stats_run_t){now.samples[1], 3 * PER_BATCH, fives, 3, 0};
    d = compare(base.runs, STARTS, now.runs, STARTS, true);
    OK(is_number(&d) && d.n_batches[0] == STARTS * BATCHES - STARTS / 2 * 7 - 17,
       "nor those past the shorter one's end");
    d = compare(base.runs, STARTS, now.runs, 3, false);
    OK(is_number(&d) && d.p > 0.01, "starts of different number and length");
}

/* Another quantile, of samples of which other load prolongs most, and of parts that it prolongs at different times. */
static void check_fastest(void)
{
    static double samples[2][2][STARTS][SAMPLES], wholes[2][STARTS][SAMPLES];
    stats_run_t parts[2][2 * STARTS], whole[2][STARTS];
    stats_compare_options_t fast = options;
    rng_t rng = rng_new(12, RNG_TEST, 0);
    fast.quantile = 0.01;
    for (int side = 0; side < 2; side++)
        for (int s = 0; s < STARTS; s++) {
            for (int i = 0; i < SAMPLES; i++) {
                wholes[side][s][i] = 0;
                for (int part = 0; part < 2; part++) {
                    double sec = (side && part ? 1.1 : 1) * exp(0.01 * rng_normal(&rng));
                    if (rng_uniform(&rng) < 0.97) sec -= 8 * log(1 - rng_uniform(&rng));
                    wholes[side][s][i] += samples[side][part][s][i] = sec;
                }
            }
            for (int part = 0; part < 2; part++)
                parts[side][part * STARTS + s] =
                    (stats_run_t){samples[side][part][s], SAMPLES, fives, BATCHES, 0};
            whole[side][s] = (stats_run_t){wholes[side][s], SAMPLES, fives, BATCHES, 0};
        }
    stats_difference_t median = compare(parts[0] + STARTS, STARTS, parts[1] + STARTS, STARTS, true);
    for (int interleaved = 0; interleaved < 2; interleaved++) {
        stats_difference_t d =
            compare_with(parts[0] + STARTS, STARTS, parts[1] + STARTS, STARTS, interleaved, &fast);
        OK(is_number(&d) && near(d.ratio, 1.1, 0.02) && d.low > 1.05 && d.high < 1.15 && d.p < 0.001,
           "10 %% slower by the fastest samples%s: %.3f to %.3f", interleaved ? " in turn" : "", d.low,
           d.high);
        OK(log(median.high / median.low) > 2 * log(d.high / d.low), "where medians tell less");
        const stats_runs_t sides[2] = {{parts[0], STARTS, 2}, {parts[1], STARTS, 2}};
        stats_difference_t e, swapped;
        OK_CALL(stats_compare(&sides[0], &sides[1], interleaved, &fast, &e), "in two parts");
        OK(is_number(&e) && near(e.ratio, 1.05, 0.02) && near(e.base, 2, 0.05) && e.low > 1,
           "whose sum is 5 %% slower: %.3f to %.3f", e.low, e.high);
        d = compare_with(whole[0], STARTS, whole[1], STARTS, interleaved, &fast);
        OK(d.base > 2.02 && d.high / d.low > e.high / e.low, "the sums themselves are seldom undisturbed");
        OK_CALL(stats_compare(&sides[1], &sides[0], interleaved, &fast, &swapped), "swapped");
        OK(near(swapped.ratio, 1 / e.ratio, 1e-12) && near(swapped.error, e.error, 1e-9), "it is inverted");
    }
    stats_difference_t d = compare_with(parts[0], 1, parts[1], 1, true, &fast);
    OK(is_number(&d) && d.p >= 1 && isinf(d.high) && d.assumed, "one pair does not tell");
}

static void check_recordings(void)
{
    stats_compare_options_t days = options;
    days.recording_spread = 0.02;
    record(&base, 1, 0.002, NULL, 30), record(&now, 1, 0.002, NULL, 31);
    stats_difference_t d = compare_with(base.runs, STARTS, now.runs, STARTS, false, &days);
    OK(is_number(&d) && near(d.error, 0.02 * sqrt(2), 0.02) && isinf(d.recordings.df),
       "assumed for one recording each");
    d = compare_with(base.runs, STARTS, now.runs, STARTS, true, &days);
    OK(d.error < 0.005 && !(d.recordings.df > 0), "not where they took turns");
    for (int s = 0; s < STARTS; s++) base.runs[s].recording = s / 2;
    d = compare_with(base.runs, STARTS, now.runs, STARTS, false, &days);
    OK(is_number(&d) && near(d.recordings.df, 3, 1e-12) && d.recordings.deviation < 0.01 && d.error < 0.01 &&
           d.df < 8,
       "measured from four recordings of a side");
    for (int i = 0; i < STARTS * SAMPLES; i++)
        base.samples[i / SAMPLES][i % SAMPLES] *= 1 + 0.05 * (i / SAMPLES / 2 % 2);
    d = compare_with(base.runs, STARTS, now.runs, STARTS, false, &days);
    OK(near(d.recordings.deviation, 0.028, 0.1) && near(d.error, 0.028 * sqrt(1.25), 0.1) &&
           near(d.df, 3, 0.2),
       "also if they differ by more than is assumed");
    for (int s = 0; s < STARTS; s++) base.runs[s].recording = s / 4;
    d = compare_with(base.runs, STARTS, now.runs, STARTS, false, &days);
    OK(isinf(d.recordings.df) && near(d.recordings.deviation, 0.02, 1e-12), "two do not tell");
    record(&base, 1, 0.002, NULL, 30);
    days.recordings = (stats_spread_t){0.001, 12, 0};
    d = compare_with(base.runs, 4, now.runs, 4, false, &days);
    OK(near(d.recordings.df, 12, 1e-12) && d.error < 0.01, "a history tells");
    days.starts = (stats_spread_t){0.003, 30, 0};
    d = compare_with(base.runs, 4, now.runs, 1, false, &days);
    OK(is_number(&d) && !d.assumed && d.error > 0.003 && d.error < 0.01, "of single starts too");
    for (int s = 0; s < STARTS; s++) base.runs[s].recording = now.runs[s].recording = s;
    d = compare_with(base.runs, STARTS, now.runs, STARTS, false, &options);
    OK(is_number(&d) && !d.assumed && near(d.recordings.df, 14, 1e-12), "starts that each are a recording");

    bool slow[STARTS][BATCHES];
    for (int i = 0; i < STARTS * BATCHES; i++) slow[i / BATCHES][i % BATCHES] = i % 3 == 0;
    record(&base, 1, 0.002, slow, 32), record(&now, 1, 0.002, slow, 33);
    d = compare(base.runs, STARTS, now.runs, STARTS, false);
    OK(d.two_levels, "two levels of speed are seen");
    record(&now, 1, 0.002, NULL, 33);
    d = compare(base.runs, STARTS, now.runs, STARTS, false);
    OK(!d.two_levels, "on both sides only");
}

/* The error of one start with independent samples is what theory says of a median: 1.2533 σ / √n a side. */
static void check_error(void)
{
    double sum = 0;
    int n_alarms = 0;
    enum { TRIALS = UNDER_SANITIZER ? 10 : 60 };
    stats_compare_options_t sure = options;
    sure.start_spread = 0, sure.n_resamples = 200;
    for (uint64_t i = 0; i < TRIALS; i++) {
        stats_difference_t d;
        record(&base, 1, 0, NULL, 100 + 2 * i), record(&now, 1, 0, NULL, 101 + 2 * i);
        d = compare_with(base.runs, 1, now.runs, 1, false, &sure);
        sum += d.error * d.error;
        record(&base, 1, 0.02, NULL, 100 + 2 * i), record(&now, 1, 0.02, NULL, 101 + 2 * i);
        d = compare_with(base.runs, STARTS, now.runs, STARTS, false, &sure);
        n_alarms += d.p < 0.01;
    }
    double want = 1.2533 * 0.01 / sqrt(SAMPLES) * sqrt(2);
    double error = sqrt(sum / TRIALS);
    OK(error > 0.85 * want && error < 1.6 * want, "one start's standard error is %.2f of the theory's",
       error / want);
    OK(n_alarms <= 3, "%d of %d comparisons of the same were alarms", n_alarms, (int)TRIALS);
}

int main(void)
{
    tap_plan(10 + 7 + 8 + 8 + 5 + 2 + 15 + 10 + 1);
    check_found();
    check_in_turn();
    check_symmetry();
    check_little();
    check_weights();
    check_error();
    check_fastest();
    check_recordings();
    OK(mem_live() == 0, "no memory is left");
    return tap_done();
}
