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

static stats_compare_options_t usual(int trial)
{
    return (stats_compare_options_t){
        .alpha = alpha, .quantile = 0.5, .n_resamples = N_RESAMPLES, .seed = (uint64_t)trial};
}

static stats_difference_t compare(const stats_run_t *base, int n_base, const stats_run_t *now, int n_now,
                                  bool in_turn, const stats_compare_options_t *options)
{
    const stats_runs_t sides[2] = {{base, n_base, 1}, {now, n_now, 1}};
    stats_difference_t d;
    if (stats_compare(&sides[0], &sides[1], in_turn, options, &d) != ERR_OK) {
        log_error("%s", err_message());
        exit(ERR_SYSTEM);
    }
    return d;
}

/* The rule of dptrain report compare for one metric, with its usual minimum effect. */
static bool is_worse(const stats_difference_t *d)
{
    return d->p <= alpha && d->low > 1 && d->ratio >= 1.03;
}

static bool is_better(const stats_difference_t *d)
{
    return d->p <= alpha && d->high < 1 && d->ratio <= 1 / 1.03;
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
        runs[side][start] = (stats_run_t){samples[side][start], N_SAMPLES, batch_n, N_BATCHES, 0};
    }
    stats_compare_options_t options = usual(tally->n);
    options.start_spread = s->spread;
    d = compare(runs[0], s->n_starts, runs[1], s->n_starts, s->in_turn, &options);
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

enum { STARTS = 4, MAX_RECORDINGS = 30, N_BASES = 6 };
typedef struct base_kind {
    const char *name;
    int n_base, n_history;
} base_kind_t;
static const base_kind_t bases[N_BASES] = {
    {"1 recording", 1, 0},      {"2", 2, 0}, {"3", 3, 0}, {"5", 5, 0}, {"1, history of 10", 1, 10},
    {"1, history of 30", 1, 30}};

/* Recordings of 4 starts that differ by `spread`, as starts do by 0.5 %. Recording `which` is compared with the
 * trial's baseline. */
static stats_difference_t compare_recordings(const base_kind_t *kind, double spread, double effect, int trial,
                                             int which)
{
    static double samples[MAX_RECORDINGS + 1][STARTS][N_SAMPLES];
    static const double still[N_BATCHES];
    stats_run_t runs[MAX_RECORDINGS + 1][STARTS];
    int32_t batch_n[N_BATCHES];
    rng_t rng = rng_new(3, RNG_TEST, (uint64_t)trial);
    double squares = 0, mean = 0, offsets[MAX_RECORDINGS];
    stats_compare_options_t options = usual(trial);
    for (int b = 0; b < N_BATCHES; b++) batch_n[b] = PER_BATCH;
    rng_t of_new = rng_new(5, RNG_TEST, (uint64_t)(2 * trial + which));
    for (int r = 0; r <= kind->n_base; r++) {
        rng_t *draw = r == kind->n_base ? &of_new : &rng;
        double offset = spread * rng_normal(draw) + (r == kind->n_base ? effect : 0);
        for (int i = 0; i < STARTS; i++) {
            take_samples(NORMAL, still, offset + 0.005 * rng_normal(draw), draw, samples[r][i]);
            runs[r][i] = (stats_run_t){samples[r][i], N_SAMPLES, batch_n, N_BATCHES, r};
        }
    }
    options.recording_spread = 0.02;
    /* The values of a history: the median of 4 starts has 1.1 times the variance of their mean. */
    const double within = 0.005 * 0.005 * 1.1 / STARTS;
    for (int i = 0; i < kind->n_history; i++) {
        offsets[i] = sqrt(spread * spread + within) * rng_normal(&rng);
        mean += offsets[i] / kind->n_history;
    }
    for (int i = 0; i < kind->n_history; i++) squares += (offsets[i] - mean) * (offsets[i] - mean);
    if (kind->n_history > 0)
        options.recordings =
            (stats_spread_t){sqrt(squares / (kind->n_history - 1)), kind->n_history - 1, within / 1.1};
    return compare(runs[0], kind->n_base * STARTS, runs[kind->n_base], STARTS, false, &options);
}

/* Share of comparisons that find a slowdown of the size that an earlier one with the same baseline said 95 % find. */
static void print_detectable(int n)
{
    static const double of_recordings[] = {0.003, 0.01, 0.02};
    printf(
        "\nSlowed by as much as the comparison before said that 95 %% of them find: found (%d comparisons each)\n\n"
        "| recordings differ by |",
        n);
    for (int k = 0; k < N_BASES; k++) printf(" %s |", bases[k].name);
    printf("\n|--:|");
    for (int k = 0; k < N_BASES; k++) printf("--:|");
    for (int i = 0; i < 3; i++) {
        printf("\n| %.1f %% |", 100 * of_recordings[i]);
        for (int k = 0; k < N_BASES; k++) {
            int found = 0;
            for (int trial = 0; trial < n; trial++) {
                stats_difference_t d = compare_recordings(&bases[k], of_recordings[i], 0, trial, 0);
                double effect = stats_detectable(&d, 0.03, alpha);
                d = compare_recordings(&bases[k], of_recordings[i], log1p(effect), trial, 1);
                found += is_worse(&d);
            }
            printf(" %.1f %% |", 100.0 * found / n);
        }
        fflush(stdout);
    }
    printf("\n");
}

static void print_recordings(int n)
{
    static const double of_recordings[] = {0, 0.003, 0.01, 0.02, 0.03, 0.05}, effects[] = {0, 0.05, 0.1};
    static const char *const titles[] = {"no difference: better or worse", "5 % slower: worse",
                                         "10 % slower: worse"};
    for (int e = 0; e < 3; e++) {
        printf(
            "\nRecordings that differ, %s by the rule of `dptrain report compare` (%d comparisons each)\n\n"
            "| recordings differ by |",
            titles[e], e ? n / 5 : n);
        for (int k = 0; k < N_BASES; k++) printf(" %s |", bases[k].name);
        printf("\n|--:|");
        for (int k = 0; k < N_BASES; k++) printf("--:|");
        for (int i = 0; i < 6; i++) {
            printf("\n| %.1f %% |", 100 * of_recordings[i]);
            for (int k = 0; k < N_BASES; k++) {
                int found = 0, n_trials = e ? n / 5 : n;
                for (int trial = 0; trial < n_trials; trial++) {
                    stats_difference_t d =
                        compare_recordings(&bases[k], of_recordings[i], log1p(effects[e]), trial, 0);
                    found += is_worse(&d) || (e == 0 && is_better(&d));
                }
                printf(" %.1f %% |", 100.0 * found / n_trials);
            }
            fflush(stdout);
        }
        printf("\n");
    }
}

/* Pairs of starts on a machine whose other load prolongs a share of the samples, up to many times. */
typedef struct busy_machine {
    double share, spread; /* of samples that are prolonged; between starts */
    bool placement;       /* one start of five is 6 % faster */
} busy_machine_t;

static stats_difference_t compare_disturbed(const busy_machine_t *m, double effect, double quantile,
                                            int trial)
{
    static double samples[2][MAX_STARTS][N_SAMPLES];
    stats_run_t runs[2][MAX_STARTS];
    int32_t batch_n[N_BATCHES];
    rng_t rng = rng_new(4, RNG_TEST, (uint64_t)trial);
    stats_compare_options_t options = usual(trial);
    options.quantile = quantile;
    options.start_spread = 0.02;
    for (int b = 0; b < N_BATCHES; b++) batch_n[b] = PER_BATCH;
    for (int start = 0; start < MAX_STARTS; start++)
        for (int side = 0; side < 2; side++) {
            const double still[N_BATCHES] = {0};
            double level = m->spread * rng_normal(&rng) + side * effect;
            if (m->placement && rng_uniform(&rng) < 0.2) level -= 0.06;
            take_samples(NORMAL, still, level, &rng, samples[side][start]);
            for (int i = 0; i < N_SAMPLES; i++)
                if (rng_uniform(&rng) < m->share) samples[side][start][i] += -8 * log(1 - rng_uniform(&rng));
            runs[side][start] = (stats_run_t){samples[side][start], N_SAMPLES, batch_n, N_BATCHES, 0};
        }
    return compare(runs[0], MAX_STARTS, runs[1], MAX_STARTS, true, &options);
}

static void print_disturbed(int n)
{
    static const busy_machine_t machines[] = {{0, 0.005, false},   {0.3, 0.005, false}, {0.6, 0.005, false},
                                              {0.9, 0.005, false}, {0.6, 0.01, false},  {0.6, 0.02, false},
                                              {0.6, 0, true}};
    static const double effects[] = {0, 0.05, 0.1};
    printf(
        "\nInterleaved, 8 + 8 starts, other load prolongs samples nine times on average: better or worse (%d "
        "comparisons each)\n\n| samples prolonged | starts differ by | no difference, by the median | by the fastest "
        "| 5 %% slower, by the median | by the fastest | 10 %% slower, by the median | by the fastest |\n"
        "|--:|---|--:|--:|--:|--:|--:|--:|\n",
        n);
    for (size_t i = 0; i < sizeof machines / sizeof *machines; i++) {
        printf("| %.0f %% | ", 100 * machines[i].share);
        if (machines[i].placement)
            printf("one of 5 is 6 %% faster |");
        else
            printf("%.1f %% |", 100 * machines[i].spread);
        for (int e = 0; e < 3; e++)
            for (int fast = 0; fast < 2; fast++) {
                int found = 0;
                for (int trial = 0; trial < n; trial++) {
                    stats_difference_t d =
                        compare_disturbed(&machines[i], log1p(effects[e]), fast ? 0.01 : 0.5, trial);
                    /* As report compare chooses. */
                    for (double quantile = 0.02; fast && quantile < 0.06; quantile += 0.03) {
                        const stats_difference_t other =
                            compare_disturbed(&machines[i], log1p(effects[e]), quantile, trial);
                        if (other.error < d.error) d = other;
                    }
                    found += is_worse(&d) || (e == 0 && is_better(&d));
                }
                printf(" %.1f %% |", 100.0 * found / n);
            }
        printf("\n");
        fflush(stdout);
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

/* Whether what was found in the whole history is called a drift, as in dptrain report history. */
static bool is_drift(const double *values, uint64_t seed)
{
    stats_change_options_t options = {alpha, 0.005, N_PERMUTATIONS, seed};
    stats_change_t changes[HISTORY];
    int n_found, at[HISTORY];
    stats_drift_t drift = {0};
    if (stats_change_points(values, HISTORY, &options, changes, HISTORY, &n_found) != ERR_OK)
        exit(ERR_SYSTEM);
    for (int i = 0; i < n_found; i++) at[i] = changes[i].at;
    if (n_found > 0 && stats_find_drift(values, HISTORY, at, n_found, &drift) != ERR_OK) exit(ERR_SYSTEM);
    return n_found > 0 && drift.is_better && drift.p <= alpha;
}

/* Shares of histories in which a change was found by the end, looking after each run from BEFORE + 3 on. */
static void print_row(const char *name, history_kind_t kind, double sd, double step, int n)
{
    int n_by[MAX_AFTER + 1] = {0}, n_once = 0, n_drifts = 0;
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
        n_drifts += is_drift(values, (uint64_t)trial);
    }
    printf("| %s | %.1f %% |", name, 100 * sd);
    for (int after = 3; after <= MAX_AFTER; after++) printf(" %.1f %% |", 100.0 * n_by[after] / n);
    printf(" %.1f %% | %.1f %% |\n", 100.0 * n_once / n, 100.0 * n_drifts / n);
    fflush(stdout);
}

static void print_histories(int n)
{
    static const double sds[] = {0.003, 0.005, 0.008, 0.012};
    static const char *const head =
        "| noise | its standard deviation | after 27 runs | 28 | 29 | 30 | the 30 at once | called a drift |\n"
        "|---|--:|--:|--:|--:|--:|--:|--:|\n";
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
    print_recordings((int)n);
    print_detectable((int)n / 5);
    print_disturbed((int)n / 5);
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
