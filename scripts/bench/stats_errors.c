/* SPDX-License-Identifier: MIT */
/* How often the statistics under `dptrain report` are wrong, in tables: stats_errors [--trials N]. Samples
 * and histories are synthetic and the same on every machine. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/rng.h"
#include "report/stats/stats.h"

enum { N_BATCHES = 20, PER_BATCH = 5, N_SAMPLES = N_BATCHES * PER_BATCH, MAX_STARTS = 8, N_RESAMPLES = 500 };
enum { DWELL = 10, N_PERMUTATIONS = 999, HISTORY = 30, BEFORE = 24, MAX_AFTER = 6 };
static const double alpha = 0.01, noise = 0.01;

typedef enum shape { NORMAL, LOGNORMAL, AR_5, AR_9, BIMODAL, LONG_LEVELS, DRIFT, N_SHAPES } shape_t;
static const char *const shape_names[] = {"normal",
                                          "log-normal",
                                          "autocorrelated, 0.5",
                                          "autocorrelated, 0.9",
                                          "two levels, 1.6 ×",
                                          "two levels, as long as starts",
                                          "drift, 2 % in all"};

/* The machine's effect on a start, batch by batch; the same for both of an interleaved pair. */
static void machine(shape_t shape, double time, double duration, rng_t *rng, double *ln)
{
    bool slow = rng_uniform(rng) < 0.5;
    for (int b = 0; b < N_BATCHES; b++) {
        if (rng_uniform(rng) < 1.0 / DWELL && shape != LONG_LEVELS) slow = !slow;
        ln[b] = (shape == BIMODAL || shape == LONG_LEVELS) && slow ? log(1.6) : 0;
        if (shape == DRIFT) ln[b] = 0.02 * (time + (double)b / N_BATCHES) / duration;
    }
}

static void take_samples(shape_t shape, const double *of_machine, double level, rng_t *rng, double *out)
{
    double rho = shape == AR_5 ? 0.5 : shape == AR_9 ? 0.9 : 0;
    double state = rng_normal(rng);
    for (int i = 0; i < N_SAMPLES; i++) {
        double z = rng_normal(rng);
        state = i == 0 ? state : rho * state + sqrt(1 - rho * rho) * z;
        out[i] = exp(level + of_machine[i / PER_BATCH] + noise * (shape == LOGNORMAL ? exp(z) : state));
    }
}

typedef struct setting {
    shape_t shape;
    double spread, effect; /* of starts; ln(ratio) */
    int n_starts;
    bool in_turn;
} setting_t;

typedef struct tally {
    int n, n_found, n_rank, n_covered;
} tally_t;

static void compare_once(const setting_t *s, rng_t *rng, tally_t *tally)
{
    static double samples[2][MAX_STARTS][N_SAMPLES];
    stats_run_t runs[2][MAX_STARTS];
    int32_t batch_n[N_BATCHES];
    double of_machine[N_BATCHES];
    stats_difference_t d;
    for (int b = 0; b < N_BATCHES; b++) batch_n[b] = PER_BATCH;
    for (int i = 0; i < 2 * s->n_starts; i++) {
        int side = s->in_turn ? i % 2 : i / s->n_starts, start = s->in_turn ? i / 2 : i % s->n_starts;
        double level = s->spread * rng_normal(rng) + side * s->effect;
        if (!s->in_turn || side == 0)
            machine(s->shape, s->in_turn ? i / 2 * 2 : i, 2.0 * s->n_starts, rng, of_machine);
        take_samples(s->shape, of_machine, level, rng, samples[side][start]);
        runs[side][start] = (stats_run_t){samples[side][start], N_SAMPLES, batch_n, N_BATCHES};
    }
    stats_compare_options_t options = {alpha, s->spread, N_RESAMPLES, (uint64_t)tally->n};
    if (stats_compare(runs[0], s->n_starts, runs[1], s->n_starts, s->in_turn, &options, &d) != ERR_OK) {
        log_error("%s", err_message());
        exit(ERR_SYSTEM);
    }
    tally->n++;
    tally->n_found += d.p < alpha;
    tally->n_rank += d.p_rank < alpha;
    tally->n_covered += d.low <= exp(s->effect) && d.high >= exp(s->effect);
}

static tally_t compare_often(setting_t s, int n)
{
    tally_t tally = {0};
    rng_t rng = rng_new(1, RNG_TEST, (uint64_t)(s.shape * 100 + s.n_starts * 10 + s.in_turn));
    while (tally.n < n) compare_once(&s, &rng, &tally);
    return tally;
}

enum { N_SPREADS = 3, N_COLUMNS = 6 };
static const double spreads[N_SPREADS] = {0, 0.005, 0.02};
typedef tally_t grid_t[N_SHAPES][N_SPREADS][N_COLUMNS];

static void compare_all(double effect, int n, grid_t grid)
{
    static const int starts[] = {1, 3, 8};
    for (int shape = 0; shape < N_SHAPES; shape++)
        for (int i = 0; i < N_SPREADS; i++)
            for (int j = 0; j < N_COLUMNS; j++)
                grid[shape][i][j] = compare_often(
                    (setting_t){(shape_t)shape, spreads[i], log1p(effect), starts[j % 3], j >= 3}, n);
}

enum { FOUND, FOUND_BY_RANKS, COVERED };

static void print_comparisons(const char *title, grid_t grid, int kind)
{
    printf("\n%s (%d comparisons each)\n\n", title, grid[0][0][0].n);
    printf(
        "| samples | starts differ by | 1 + 1 starts | 3 + 3 | 8 + 8 | in turn, 1 + 1 | 3 + 3 | 8 + 8 |\n");
    printf("|---|--:|--:|--:|--:|--:|--:|--:|\n");
    for (int shape = 0; shape < N_SHAPES; shape++) {
        for (int i = 0; i < N_SPREADS; i++) {
            printf("| %s | %.1f %% |", shape_names[shape], 100 * spreads[i]);
            for (int j = 0; j < N_COLUMNS; j++) {
                const tally_t *t = &grid[shape][i][j];
                int count = kind == COVERED ? t->n_covered : kind == FOUND ? t->n_found : t->n_rank;
                printf(" %.1f %% |", 100.0 * count / t->n);
            }
            printf("\n");
        }
    }
}

typedef enum kind { STEADY, OUTLIERS, CORRELATED_3, CORRELATED_6, CREEP, N_KINDS } history_kind_t;
static const char *const kind_names[] = {"normal", "normal, 1 of 20 is 5 % slower", "autocorrelated, 0.3",
                                         "autocorrelated, 0.6", "drift, 2 % in all"};

static void make_history(history_kind_t kind, double sd, double step, rng_t *rng, double *out)
{
    double rho = kind == CORRELATED_3 ? 0.3 : kind == CORRELATED_6 ? 0.6 : 0, state = rng_normal(rng);
    for (int i = 0; i < HISTORY; i++) {
        out[i] = (i >= BEFORE) * step + sd * state;
        if (kind == OUTLIERS && rng_uniform(rng) < 0.05) out[i] += 0.05;
        if (kind == CREEP) out[i] += 0.02 * i / HISTORY;
        out[i] = exp(out[i]);
        state = rho * state + sqrt(1 - rho * rho) * rng_normal(rng);
    }
}

static int n_changes(const double *values, int n, uint64_t seed)
{
    stats_change_options_t options = {alpha, 0.005, N_PERMUTATIONS, seed};
    stats_change_t changes[HISTORY];
    int n_found;
    if (stats_change_points(values, n, &options, changes, HISTORY, &n_found) != ERR_OK) {
        log_error("%s", err_message());
        exit(ERR_SYSTEM);
    }
    return n_found;
}

/* Shares of histories in which a change was found by the end, looking after each run from BEFORE + 3 on. */
static void print_row(const char *name, history_kind_t kind, double sd, double step, int n)
{
    int n_by[MAX_AFTER + 1] = {0}, n_once = 0;
    rng_t rng = rng_new(2, RNG_TEST, kind);
    for (int trial = 0; trial < n; trial++) {
        double values[HISTORY];
        bool found = false;
        make_history(kind, sd, step, &rng, values);
        for (int after = 3; after <= MAX_AFTER; after++) {
            bool now = n_changes(values, BEFORE + after, (uint64_t)trial) > 0;
            found = found || now;
            n_by[after] += found;
            if (after == MAX_AFTER) n_once += now;
        }
    }
    printf("| %s | %.1f %% |", name, 100 * sd);
    for (int after = 3; after <= MAX_AFTER; after++) printf(" %.1f %% |", 100.0 * n_by[after] / n);
    printf(" %.1f %% |\n", 100.0 * n_once / n);
    fflush(stdout);
}

static void print_histories(int n)
{
    static const double sds[] = {0.003, 0.005, 0.008, 0.012};
    static const char *const head =
        "| noise | its standard deviation | after 27 runs | 28 | 29 | 30 | the 30 at once |\n"
        "|---|--:|--:|--:|--:|--:|--:|\n";
    printf("\nHistories without a change: one was found by (%d histories each)\n\n%s", n, head);
    for (int kind = 0; kind < N_KINDS; kind++) print_row(kind_names[kind], (history_kind_t)kind, 0.008, 0, n);
    printf("\nHistories with a step of 2 %% after run %d: found by (%d histories each)\n\n%s", BEFORE, n,
           head);
    for (int kind = 0; kind < 2; kind++)
        for (int i = 0; i < 4; i++) print_row(kind_names[kind], (history_kind_t)kind, sds[i], log(1.02), n);
}

int main(int argc, char **argv)
{
    char *end = "";
    long n = argc == 3 && strcmp(argv[1], "--trials") == 0 ? strtol(argv[2], &end, 10) : argc == 1 ? 1000 : 0;
    if (n < 10 || n > 1000000 || *end) {
        log_error("usage: stats_errors [--trials N], N from 10");
        return ERR_USAGE;
    }
    printf("Samples of 1 %% noise, 20 batches of 5 a start; with one start a side, what starts differ by is "
           "told.\n");
    static grid_t grid;
    compare_all(0, (int)n, grid);
    print_comparisons("No difference: share of p < 0.01", grid, FOUND);
    print_comparisons("No difference: share of p_rank < 0.01, which knows nothing of starts", grid,
                      FOUND_BY_RANKS);
    print_comparisons("No difference: coverage of the 99 % interval", grid, COVERED);
    compare_all(0.03, (int)n / 5, grid);
    print_comparisons("3 % slower: share of p < 0.01", grid, FOUND);
    compare_all(0.05, (int)n / 5, grid);
    print_comparisons("5 % slower: share of p < 0.01", grid, FOUND);
    print_histories((int)n);
    return 0;
}
