/* SPDX-License-Identifier: MIT */
/* Two recordings, metric by metric: what got better, what worse, what cannot be told. A recording is what a
 * report_t holds: one or several runs of the same suite (starts of the program). A metric is a point of
 * dptrain bench (case, test, key) or a training run's step (metrics.h); its parts (forward, backward, …) say
 * where a step's change came from and are not tested among the metrics. The same files give the same result.
 */
#ifndef REPORT_REGRESS_COMPARE_H
#define REPORT_REGRESS_COMPARE_H

#include "report/records/metrics.h"
#include "report/records/render.h"
#include "report/stats/compare.h"

typedef enum verdict { VERDICT_SAME, VERDICT_BETTER, VERDICT_WORSE, VERDICT_INCONCLUSIVE } verdict_t;
enum { VERDICTS = 4 };
extern const char *const verdict_names[VERDICTS]; /* "same", "better", "worse", "inconclusive" */

/* The machine was not ours alone where its fixed loop of arithmetic took so much longer than usual. */
#define COMPARE_CLOCK_SLACK 0.06
/* What that is: the 5 % quantile of the loop's times, so that one burst of the processor's clock does not
 * make all others slow. Sorts them; NAN where there are none. */
double compare_usual_clock(double *clocks, int64_t n);
/* A recording with a larger share of such measurements is compared only with what took turns with it. */
#define COMPARE_MAX_DISTURBED 0.4
/* stats_compare_options_t's, where a side has one start: what starts of gemm, conv and steps were seen to
 * differ by on a quiet machine. */
#define COMPARE_START_SPREAD 0.02

typedef struct compare_options {
    double min_effect; /* ratios within [1 / (1 + min_effect), 1 + min_effect] are as good as 1 */
    double alpha;      /* rate of false discoveries among the metrics */
    bool force;        /* compare although hardware or fabric differ */
    int n_resamples;
    uint64_t seed;
} compare_options_t;

typedef struct compare_part {
    const char *name; /* of report_samples_t */
    /* Where a sample is 0 or no number, base and now alone are known, as medians; the others are NAN. */
    stats_difference_t difference;
    double share; /* of the whole's change that is this part's; NAN: no change */
} compare_part_t;

typedef struct compare_metric {
    const char *case_name, *test, *key; /* key: what tells it from others of its test, as "bytes=8" */
    const char *label;                  /* metric_t's */
    int n_runs[2], n_slowed[2];         /* starts that are compared; that were left out: a slowed machine's */
    int64_t n_samples[2],
        n_invalid[2]; /* of these starts; of these and of starts without samples: no times */
    bool interleaved;
    bool tested;                   /* false: what `reason` says is known without a test; q is NAN */
    stats_difference_t difference; /* of times: above 1 is slower. NAN where a side has no samples */
    double q;                      /* Benjamini and Hochberg's, among the metrics */
    verdict_t verdict;
    const char *reason; /* of inconclusive, for people; "" */
    const compare_part_t *parts;
    int n_parts;
    const compare_part_t *attributed_to; /* of better or worse: the part whose change is most of it; NULL */
    struct compare_metric *next;
} compare_metric_t;

/* What is said of a recording in the head. */
typedef struct compare_side {
    const char *name;         /* its file, "a.jsonl and 2 more files" */
    const char *first, *last; /* times of whole runs, as texts; "" */
    const char *git;          /* revisions, "a, b"; "" */
    int n_runs, n_left_out;   /* that are whole; that are not */
} compare_side_t;

typedef struct comparison {
    const report_t *base, *now;
    compare_side_t sides[2];
    compare_metric_t *metrics, *last; /* in base's order */
    int n_metrics, n_of[VERDICTS];
    verdict_t verdict;  /* worse where a metric is; else inconclusive, better, same, in this order */
    const char **notes; /* what was left out, and what differs in software, for people */
    int n_notes;
    arena_t arena;
} comparison_t;

/* Both were read with keep_samples. ERR_DATA: nothing to compare; hardware, fabric, ranks or threads differ
 * (saying in what) and !force. A zeroed *out is filled; compare_free after an error too. */
err_t compare_reports(const report_t *base, const report_t *now, const compare_options_t *options,
                      comparison_t *out);
void compare_free(comparison_t *comparison);

err_t compare_print(const comparison_t *comparison, const compare_options_t *options, const render_t *render,
                    FILE *out);
/* One object (docs/records.md). */
err_t compare_print_json(const comparison_t *comparison, const compare_options_t *options, FILE *out);

#endif
