/* SPDX-License-Identifier: MIT */
/* Compares two sides metric by metric: better, worse, same, inconclusive. A side is the content of a report_t:
 * one or several recordings, each a file with one or several runs (starts) of the same suite. A metric is a
 * point of dptrain bench (case, test, key) or the step of a training run (metrics.h). Its parts (forward,
 * backward, …) attribute a change and are not tested. The same files give the same result.
 *
 * A metric is decided by the ratio of its medians. Other load only adds time, so where the machine was
 * disturbed the ratio of the fastest samples decides (COMPARE_FAST_QUANTILES), and so it does where both sides
 * have two levels of speed. */
#ifndef REPORT_REGRESS_COMPARE_H
#define REPORT_REGRESS_COMPARE_H

#include "base/mem.h"
#include "report/records/metrics.h"
#include "report/records/render.h"
#include "report/stats/stats.h"
#include "text/figure.h"

typedef enum verdict { VERDICT_SAME, VERDICT_BETTER, VERDICT_WORSE, VERDICT_INCONCLUSIVE } verdict_t;
enum { VERDICTS = 4 };
extern const char *const verdict_names[VERDICTS]; /* "same", "better", "worse", "inconclusive" */

/* A start is slowed if the fixed loop of arithmetic (clock_sec) took longer than usual by more than this. */
#define COMPARE_CLOCK_SLACK 0.06
/* The usual time of the loop: the 5 % quantile, so that a single burst of the CPU clock does not make all
 * others slow. Sorts clocks; NAN if n is 0. */
double compare_usual_clock(double *clocks, int64_t n);
/* A side with a larger share of slowed or disturbed measurements is compared by the fastest samples. If the loop was
 * slow in as many, the machine itself was, and only interleaved sides are compared. */
#define COMPARE_MAX_DISTURBED 0.4
/* start_spread of stats_compare_options_t, and the usual recording_spread: observed for gemm, conv and steps on
 * a quiet machine. */
#define COMPARE_START_SPREAD     0.02
#define COMPARE_RECORDING_SPREAD 0.02
/* The fastest samples are those of one of these quantiles, whichever has the smallest error: of the steps of two ranks
 * beside twelve other processes on two CPUs only 1 to 10 % are undisturbed. */
#define COMPARE_FAST_QUANTILES                                                                               \
    {                                                                                                        \
        0.01, 0.02, 0.05                                                                                     \
    }

/* A comparison with a larger share of inconclusive metrics, and none that is worse, decided nothing. */
#define COMPARE_MAX_INCONCLUSIVE 0.5

typedef struct compare_options {
    double min_effect;       /* ratios within [1 / (1 + min_effect), 1 + min_effect] count as 1 */
    double alpha;            /* false discovery rate over the metrics */
    double recording_spread; /* assumed standard deviation of recordings where it is not measured */
    bool force;              /* compare even if hardware, fabric, ranks or threads differ */
    int n_resamples;
    uint64_t seed;
    const struct history *history; /* borrowed: recordings that tell the spread; NULL: none */
    const char *must_decide;       /* "CASE" or "CASE/TEST", separated by commas; NULL: none */
} compare_options_t;

typedef struct compare_part {
    const char *name; /* as in report_samples_t; the last is "other", what the others leave of the metric */
    /* If a sample is not above 0 and finite, only base and now are set, to medians; the rest is NAN. Of "other",
     * which has no samples, also ratio. */
    stats_difference_t difference;
    double share; /* of the metric's change; NAN: no change */
} compare_part_t;

typedef struct compare_metric {
    const char *case_name, *test, *key; /* key: as "bytes=8" */
    const char *label;                  /* as in metric_t */
    int n_runs[2], n_slowed[2];         /* starts compared; starts left out as slowed or disturbed */
    int64_t n_samples[2], n_invalid[2]; /* n_invalid: also of starts without valid samples */
    bool interleaved;
    bool tested; /* false: `reason` precludes a test; q is NAN */
    /* Of times: ratio above 1 is slower; NAN if a side has no samples. Of the medians; of the fastest samples, of
     * a step the sum over its parts; and the one of both that decides. */
    stats_difference_t median, fast, difference;
    double fast_quantile; /* of `fast` */
    bool by_fast;         /* `fast` decides */
    double detectable;    /* a slowdown of this share is found with 95 %; NAN: unknown */
    bool must_decide;     /* as the options want */
    double q;             /* by Benjamini and Hochberg, over the metrics */
    verdict_t verdict;
    const char *reason; /* human-readable, if inconclusive; otherwise "" */
    const compare_part_t *parts;
    int n_parts;
    const compare_part_t *attributed_to; /* if better or worse: the part with the largest share; NULL: none */
    struct compare_metric *next;
} compare_metric_t;

/* The summary of a recording. */
typedef struct compare_side {
    const char *name;         /* files, as "a.jsonl and 2 more files" */
    const char *first, *last; /* times of complete runs, as texts; "": none */
    const char *git;          /* revisions, as "a and b"; "": none */
    int n_runs, n_left_out;   /* complete; incomplete */
    int n_recordings;         /* files with a complete run */
} compare_side_t;

typedef struct comparison {
    const report_t *base, *now;
    compare_side_t sides[2];
    compare_metric_t *metrics, *last; /* in the order of base */
    int n_metrics, n_of[VERDICTS];
    verdict_t verdict;        /* the first of worse, inconclusive, better, same that a metric has */
    double detectable;        /* median over the metrics; NAN: unknown */
    int n_undecided;          /* of options.must_decide: inconclusive metrics, and names without a metric */
    const char *not_measured; /* the first such name; "": none */
    const char **notes;       /* human-readable: what was left out, and differences in software */
    int n_notes;
    arena_t arena;
} comparison_t;

/* Compares two reports read with keep_samples. Fills a zeroed *out; call compare_free after an error too.
 * ERR_DATA: nothing to compare, or hardware, fabric, ranks or threads differ and !force; the message lists
 * the differences. */
err_t compare_reports(const report_t *base, const report_t *now, const compare_options_t *options,
                      comparison_t *out);
void compare_free(comparison_t *comparison);

/* Whether it decided anything; see COMPARE_MAX_INCONCLUSIVE. */
bool compare_decided(const comparison_t *comparison);

err_t compare_print(const comparison_t *comparison, const compare_options_t *options, const render_t *render,
                    FILE *out);
/* One object (docs/records.md). */
err_t compare_print_json(const comparison_t *comparison, const compare_options_t *options, FILE *out);

/* An interval of ratios as text, for tables and pages. An end beyond tenfold only says that the data does not limit
 * the ratio on that side, so its value is not shown. */
#define INTERVAL_MAX_RATIO 10.0

/* "-0.5 … +0.6 %", "+2.0 % … beyond ×10", "beyond ×10"; "unknown" if the ends are beyond on either side; "-" if
 * one is NAN. */
err_t interval_text(arena_t *arena, double low, double high, const char **out);

#endif
