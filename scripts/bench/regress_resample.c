/* SPDX-License-Identifier: MIT */
/* How often `dptrain report compare` is wrong on real recordings of one build:
 *
 *   regress_resample [--trials N] [--min-effect X] RECORDING RECORDING…
 *   regress_resample [--trials N] [--min-effect X] --in-turn FIRST SECOND [FIRST SECOND]…
 *
 * A trial draws two of the recordings (or one pair that was taken in turn), and in each start of these draws
 * blocks of neighbouring batches with replacement (of a pair the same of both); it then slows one metric, drawn
 * too, of the second by a set share, and compares the two. Without a slowdown what is found is a false alarm.
 * Prints a Markdown table. Deterministic. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/rng.h"
#include "report/regress/compare.h"
#include "report/stats/stats.h"

enum { MAX_RECORDINGS = 200, BLOCK_BATCHES = 5 };
static const double effects[] = {0, 0.01, 0.02, 0.03, 0.04, 0.05, 0.07, 0.1};
enum { N_EFFECTS = sizeof effects / sizeof effects[0] };

/* A recording in one of the two parts that it can play, and a point's samples as they were. */
typedef struct original {
    report_samples_t *samples; /* the report's, whose arrays are replaced by `drawn` */
    report_point_t *point;
    const report_group_t *group;
    const char *key;
    const double *sec;
    const int32_t *batch_n;
    int n_batches;
    int64_t *starts; /* of each batch, in sec */
    double *drawn;
    int32_t *drawn_batch_n;
} original_t;

typedef struct recording {
    report_t report;
    original_t *points;
    int n_points;
} recording_t;

static recording_t recordings[2][MAX_RECORDINGS];
static int n_recordings;
static bool in_turn; /* recordings 2 k and 2 k + 1 were */

static err_t keep_original(recording_t *r, const report_group_t *group, report_point_t *point)
{
    if (!point->samples || point->n_samples == 0 || !point->batch_n) return ERR_OK;
    TRY(mem_resize((size_t)(r->n_points + 1) * sizeof *r->points, "points", &r->points));
    original_t *o = &r->points[r->n_points++];
    *o = (original_t){.samples = (report_samples_t *)point->samples,
                      .point = point,
                      .group = group,
                      .sec = point->samples->sec,
                      .batch_n = point->batch_n,
                      .n_batches = point->n_batches};
    TRY(report_key_text(&r->report.arena, point, &o->key));
    point->n_samples = 1; /* parts would no longer be those of the samples */
    TRY(mem_new_array(o->n_batches, sizeof *o->starts, "batches", &o->starts));
    TRY(mem_new_array(o->n_batches, sizeof *o->drawn_batch_n, "drawn batches", &o->drawn_batch_n));
    int32_t most = 0;
    int64_t n = 0;
    for (int b = 0; b < o->n_batches; b++) {
        o->starts[b] = n;
        n += o->batch_n[b];
        if (o->batch_n[b] > most) most = o->batch_n[b];
    }
    TRY(mem_new_array((int64_t)most * o->n_batches, sizeof *o->drawn, "drawn samples", &o->drawn));
    o->samples->sec = o->drawn;
    point->batch_n = o->drawn_batch_n;
    return ERR_OK;
}

static err_t read_recording(const char *name, recording_t *r)
{
    r->report.keep_samples = true;
    int fd = open(name, O_RDONLY | O_CLOEXEC);
    if (fd < 0) RAISE(ERR_DATA, "cannot read %s", name);
    err_t err = report_read(&r->report, fd, name);
    close(fd);
    TRY(err);
    for (report_run_t *run = r->report.runs; run; run = run->next)
        for (report_group_t *group = run->groups; group; group = group->next)
            for (report_point_t *point = group->first; point; point = point->next)
                TRY(keep_original(r, group, point));
    return r->n_points > 0 ? ERR_OK : err_raise(ERR_DATA, __FILE__, __LINE__, "%s has no samples", name);
}

/* As many batches as there were, from blocks that lie next to each other, in a ring. The same ones for the same
 * seed and number. */
static void draw(original_t *o, double factor, uint64_t seed, int number)
{
    rng_t rng = rng_new(seed, RNG_TEST, (uint64_t)number);
    int64_t n = 0;
    int first = 0;
    for (int b = 0; b < o->n_batches; b++) {
        if (b % BLOCK_BATCHES == 0) first = (int)rng_below(&rng, (uint32_t)o->n_batches);
        int batch = (first + b % BLOCK_BATCHES) % o->n_batches;
        for (int64_t i = 0; i < o->batch_n[batch]; i++) o->drawn[n++] = factor * o->sec[o->starts[batch] + i];
        o->drawn_batch_n[b] = o->batch_n[batch];
    }
    o->samples->n = n;
}

static bool is_metric(const original_t *o, const char *case_name, const char *test, const char *key)
{
    return strcmp(o->group->case_name, case_name) == 0 && strcmp(o->group->test, test) == 0 &&
           strcmp(o->key, key) == 0;
}

typedef struct tally {
    int64_t n, n_worse, n_better, n_found, n_inconclusive, n_metrics;
} tally_t;

static err_t trial(double effect, const compare_options_t *options, rng_t *rng, tally_t *tally)
{
    int a = (int)rng_below(rng, (uint32_t)n_recordings), b = (int)rng_below(rng, (uint32_t)n_recordings - 1);
    uint64_t seeds[2] = {rng_u32(rng), rng_u32(rng)};
    b += b >= a;
    if (in_turn) {
        a -= a % 2;
        b = a + 1;
        seeds[1] = seeds[0];
    }
    recording_t *base = &recordings[0][a], *now = &recordings[1][b];
    const original_t *slowed = &now->points[rng_below(rng, (uint32_t)now->n_points)];
    for (int i = 0; i < base->n_points; i++) draw(&base->points[i], 1, seeds[0], i);
    for (int i = 0; i < now->n_points; i++) {
        bool is_slowed =
            is_metric(&now->points[i], slowed->group->case_name, slowed->group->test, slowed->key);
        draw(&now->points[i], is_slowed ? 1 + effect : 1, seeds[1], i);
    }
    comparison_t c = {0};
    err_t err = compare_reports(&base->report, &now->report, options, &c);
    if (err == ERR_OK) {
        tally->n++;
        tally->n_worse += c.n_of[VERDICT_WORSE] > 0;
        tally->n_better += c.n_of[VERDICT_BETTER] > 0;
        tally->n_inconclusive += c.n_of[VERDICT_INCONCLUSIVE];
        tally->n_metrics += c.n_metrics;
        for (const compare_metric_t *m = c.metrics; m; m = m->next)
            tally->n_found += m->verdict == VERDICT_WORSE && is_metric(slowed, m->case_name, m->test, m->key);
    }
    compare_free(&c);
    return err;
}

static void print_share(int64_t k, int64_t n)
{
    double low, high;
    stats_proportion_interval(k, n, 0.05, &low, &high);
    printf(" %lld (%.2f %%, %.2f–%.2f %%) |", (long long)k, 100.0 * (double)k / (double)n, 100 * low,
           100 * high);
}

static err_t run(int n_trials, const compare_options_t *options, char *const *names, int n)
{
    for (int i = 0; i < n; i++)
        for (int part = 0; part < 2; part++) TRY(read_recording(names[i], &recordings[part][i]));
    n_recordings = n;
    printf("| slowdown of one metric | comparisons | that metric found worse | any worse | any better | "
           "metrics inconclusive |\n|---:|---:|---:|---:|---:|---:|\n");
    for (int e = 0; e < N_EFFECTS; e++) {
        rng_t rng = rng_new(1, RNG_TEST, (uint64_t)e);
        tally_t tally = {0};
        for (int i = 0; i < n_trials; i++) TRY(trial(effects[e], options, &rng, &tally));
        printf("| %.0f %% | %lld |", 100 * effects[e], (long long)tally.n);
        if (e == 0)
            printf(" |");
        else
            print_share(tally.n_found, tally.n);
        print_share(tally.n_worse, tally.n);
        print_share(tally.n_better, tally.n);
        printf(" %.1f %% |\n", 100.0 * (double)tally.n_inconclusive / (double)tally.n_metrics);
        fflush(stdout);
    }
    return ERR_OK;
}

/* Whether the option takes a value, and takes this one. */
static bool take_option(const char *name, const char *value, int *n_trials, double *min_effect)
{
    char *end = "";
    if (strcmp(name, "--trials") == 0)
        *n_trials = (int)strtol(value, &end, 10);
    else if (strcmp(name, "--min-effect") == 0)
        *min_effect = strtod(value, &end);
    else
        return false;
    return end != value && !*end;
}

int main(int argc, char **argv)
{
    compare_options_t options = {.min_effect = 0.03,
                                 .alpha = 0.01,
                                 .recording_spread = COMPARE_RECORDING_SPREAD,
                                 .n_resamples = 500,
                                 .seed = 1};
    int n_trials = 1000, at = 1;
    bool known = true;
    for (; at < argc && strncmp(argv[at], "--", 2) == 0 && known; at++) {
        if (strcmp(argv[at], "--in-turn") == 0) {
            in_turn = true;
            continue;
        }
        known = at + 1 < argc && take_option(argv[at], argv[at + 1], &n_trials, &options.min_effect);
        at++;
    }
    int n = argc - at;
    if (!known || n < 2 || n > MAX_RECORDINGS || (in_turn && n % 2 != 0) || n_trials < 1 ||
        options.min_effect <= 0) {
        fprintf(
            stderr,
            "usage: regress_resample [--trials N] [--min-effect 0.03] [--in-turn] RECORDING RECORDING…\n");
        return ERR_USAGE;
    }
    err_t err = run(n_trials, &options, argv + at, n);
    if (err != ERR_OK) log_error("%s", err_message());
    return (int)err;
}
