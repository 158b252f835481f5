/* SPDX-License-Identifier: MIT */
/* Runs a comparison: which starts of a metric to compare, the difference of their samples and of its parts, false
 * discovery rates over all metrics, verdicts with their reasons, intervals as texts. report/stats has the test. */
#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "base/stats.h"
#include "report/regress/compare.h"
#include "report/regress/history.h"
#include "report/regress/parts.h"
#include "report/stats/stats.h"
#include "text/figure.h"

/* The starts of a metric. If interleaved, at[0][i] and at[1][i] are partners. */
typedef struct compare_starts {
    const metric_start_t **at[2]; /* [n] */
    int n[2];
    bool interleaved, identical;       /* identical: both sides hold the same measurements */
    bool disturbed;                    /* on a machine that was slow or busy */
    stats_spread_t starts, recordings; /* from the history */
} compare_starts_t;

enum { ENOUGH_STARTS = 3 };

static bool is_partner(const metric_start_t *a, const metric_start_t *b)
{
    const char *a_id = a->run->id, *b_id = b->run->id, *a_with = a->run->interleaved_with,
               *b_with = b->run->interleaved_with;
    return (a_id[0] && strcmp(b_with, a_id) == 0) || (b_id[0] && strcmp(a_with, b_id) == 0);
}

/* Orders the starts so that interleaved partners come first, at the same index. Returns the number of pairs.
 */
static int pair_starts(compare_starts_t *s)
{
    int n_pairs = 0;
    for (int i = 0; i < s->n[0]; i++)
        for (int k = n_pairs; k < s->n[1]; k++) {
            const metric_start_t *now = s->at[1][k], *base = s->at[0][i];
            if (!is_partner(base, now) || !base->batch_n || !now->batch_n) continue;
            s->at[1][k] = s->at[1][n_pairs];
            s->at[1][n_pairs] = now;
            s->at[0][i] = s->at[0][n_pairs];
            s->at[0][n_pairs++] = base;
            break;
        }
    return n_pairs;
}

/* The same run, read from the same file or a copy. */
static bool is_same_start(const metric_start_t *a, const metric_start_t *b)
{
    bool named = a->run->id[0] ? strcmp(a->run->id, b->run->id) == 0
                               : a->run->train && b->run->train && a->run->time[0] &&
                                     strcmp(a->run->time, b->run->time) == 0;
    const report_samples_t *x = &a->samples[0], *y = &b->samples[0];
    return named && x->n == y->n && memcmp(x->sec, y->sec, (size_t)x->n * sizeof *x->sec) == 0;
}

/* In any order: files of a folder may be listed differently. */
static bool is_identical(const compare_starts_t *s)
{
    bool same = s->n[0] == s->n[1] && s->n[0] > 0;
    for (int i = 0; i < s->n[0] && same; i++) {
        same = false;
        for (int k = 0; k < s->n[1] && !same; k++) same = is_same_start(s->at[0][i], s->at[1][k]);
    }
    return same;
}

/* Over all points of both recordings on that hardware; NAN: not recorded. */
static double usual_clock(compare_work_t *work, const char *hardware_id)
{
    if (work->clock_hardware && strcmp(work->clock_hardware, hardware_id) == 0) return work->clock_usual;
    int64_t n = 0;
    for (int side = 0; side < 2; side++)
        for (const metric_t *metric = work->sides[side].first; metric; metric = metric->next)
            for (const metric_start_t *at = metric->starts; at; at = at->next)
                if (at->clock_sec > 0 && strcmp(at->run->hardware_id, hardware_id) == 0)
                    work->clocks[n++] = at->clock_sec;
    work->clock_hardware = hardware_id;
    return work->clock_usual = compare_usual_clock(work->clocks, n);
}

/* Fraction by which the machine was slower than usual; 0: unknown. */
static double slowdown_of(compare_work_t *work, const metric_start_t *start)
{
    double excess = start->clock_sec / usual_clock(work, start->run->hardware_id) - 1;
    return excess > 0 ? excess : 0;
}

static bool is_slowed(compare_work_t *work, const metric_start_t *start)
{
    return start->disturbed || slowdown_of(work, start) > COMPARE_CLOCK_SLACK;
}

/* Counts slowed starts, once. If there are many, the others are not trusted either: the loop of arithmetic
 * does not detect contention for memory. */
static err_t count_slowed(compare_work_t *work)
{
    size_t n = 0;
    if (work->clocks) return ERR_OK;
    for (int side = 0; side < 2; side++)
        for (const metric_t *metric = work->sides[side].first; metric; metric = metric->next)
            n += (size_t)metric->n_starts;
    TRY(arena_new(&work->out->arena, sizeof *work->clocks * n, &work->clocks));
    for (int side = 0; side < 2; side++)
        for (const metric_t *metric = work->sides[side].first; metric; metric = metric->next)
            for (const metric_start_t *at = metric->starts; at; at = at->next) {
                work->n_measured[side]++;
                work->n_slowed[side] += is_slowed(work, at);
            }
    return ERR_OK;
}

static bool is_busy(const compare_work_t *work, int side)
{
    return work->n_slowed[side] > COMPARE_MAX_DISTURBED * work->n_measured[side];
}

/* Leaves out the starts on a slow or busy machine. If too few remain, or too many measurements of a side were slowed, it
 * keeps all: then the fastest samples decide, or if the machine itself was slow, nothing, and metric->reason is set. */
static err_t leave_slowed_out(compare_work_t *work, compare_starts_t *s, compare_metric_t *metric)
{
    arena_t *arena = &work->out->arena;
    int n_slow[2] = {0, 0}; /* by the clock */
    double most = 0;
    bool enough = true, slow = false;
    for (int side = 0; side < 2; side++) {
        int n_kept = 0;
        for (int i = 0; i < s->n[side]; i++) {
            const double slowdown = slowdown_of(work, s->at[side][i]);
            n_kept += !is_slowed(work, s->at[side][i]);
            n_slow[side] += slowdown > COMPARE_CLOCK_SLACK;
            most = fmax(most, slowdown);
        }
        enough = enough && n_kept > 0 && (n_kept >= ENOUGH_STARTS || 2 * n_kept >= s->n[side]);
        slow |= n_slow[side] > COMPARE_MAX_DISTURBED * s->n[side];
    }
    if (enough && !is_busy(work, 0) && !is_busy(work, 1)) {
        for (int side = 0; side < 2; side++) {
            int n = 0;
            for (int i = 0; i < s->n[side]; i++)
                if (!is_slowed(work, s->at[side][i])) s->at[side][n++] = s->at[side][i];
            metric->n_slowed[side] = s->n[side] - n;
            s->n[side] = n;
        }
        return ERR_OK;
    }
    s->disturbed = true;
    if (!slow) return ERR_OK;
    metric->reason = "the machine was slow in ";
    for (int side = 0; side < 2; side++)
        if (n_slow[side] > 0)
            TRY(arena_format(arena, &metric->reason, "%s%s%d of %d starts of %s", metric->reason,
                             side && n_slow[0] > 0 ? ", " : "", n_slow[side], s->n[side],
                             compare_side_names[side]));
    return arena_format(
        arena, &metric->reason,
        "%s: its fixed loop of arithmetic took up to %.0f %% longer; record again, or interleave the "
        "recordings (--turns)",
        metric->reason, 100 * most);
}

/* Those with samples, in the order of the files. */
static int list_starts(const metric_t *metric, const metric_start_t **out)
{
    int n = 0;
    for (const metric_start_t *at = metric->starts; at; at = at->next)
        if (at->samples) out[n++] = at;
    return n;
}

/* Picks the starts of a metric to compare. If the machine was too slow or busy to compare,
 * sets metric->reason and picks all starts. The arrays are in the comparison's arena. */
static err_t compare_pick_starts(compare_work_t *work, const metric_t *const metrics[2],
                                 compare_metric_t *metric, compare_starts_t *out)
{
    *out = (compare_starts_t){0};
    TRY(count_slowed(work));
    for (int side = 0; side < 2; side++) {
        TRY(arena_new(&work->out->arena, sizeof *out->at[side] * (size_t)metrics[side]->n_starts,
                      &out->at[side]));
        out->n[side] = list_starts(metrics[side], out->at[side]);
        for (const metric_start_t *at = metrics[side]->starts; at; at = at->next) {
            if (at->samples) continue;
            metric->n_invalid[side] += at->n_invalid;
            work->n_empty++;
        }
    }
    if (out->n[0] == 0 || out->n[1] == 0) {
        metric->reason = "one side has no valid samples";
    } else if (is_identical(out)) {
        out->identical = true;
    } else {
        int n_pairs = pair_starts(out);
        out->interleaved = n_pairs == out->n[0] && n_pairs == out->n[1];
        /* A recording's starts follow each other again. */
        for (int side = 0; side < 2 && !out->interleaved; side++) list_starts(metrics[side], out->at[side]);
        work->n_partly_interleaved += n_pairs > 0 && !out->interleaved;
        if (!out->interleaved) TRY(leave_slowed_out(work, out, metric));
        for (int side = 0; side < 2 && out->interleaved; side++) {
            int n_slowed = 0;
            for (int i = 0; i < out->n[side]; i++) n_slowed += is_slowed(work, out->at[side][i]);
            out->disturbed |= n_slowed > COMPARE_MAX_DISTURBED * out->n[side];
        }
    }
    metric->interleaved = out->interleaved;
    for (int side = 0; side < 2; side++) {
        metric->n_runs[side] = out->n[side];
        for (int i = 0; i < out->n[side]; i++) {
            metric->n_samples[side] += out->at[side][i]->samples[0].n;
            metric->n_invalid[side] += out->at[side][i]->n_invalid;
        }
    }
    return ERR_OK;
}

/* Notes starts and samples left out, and metrics with only some starts interleaved. */
static err_t compare_note_starts(compare_work_t *work)
{
    int64_t n_slowed = 0, n_invalid = 0;
    int n_metrics = 0;
    for (const compare_metric_t *at = work->out->metrics; at; at = at->next) {
        n_slowed += at->n_slowed[0] + at->n_slowed[1];
        n_invalid += at->n_invalid[0] + at->n_invalid[1];
        n_metrics += at->n_slowed[0] + at->n_slowed[1] > 0;
    }
    if (work->n_partly_interleaved > 0)
        TRY(compare_note(work, "metrics with only some starts interleaved: %d; compared as not interleaved",
                         work->n_partly_interleaved));
    if (n_slowed > 0)
        TRY(compare_note(work, "starts left out because the machine was slow or busy: %lld, in %d metric%s",
                         (long long)n_slowed, n_metrics, n_metrics == 1 ? "" : "s"));
    if (work->n_empty > 0)
        TRY(compare_note(work, "measurements left out for lack of samples: %d", work->n_empty));
    if (n_invalid > 0)
        TRY(compare_note(work, "invalid samples left out (not times above 0): %lld", (long long)n_invalid));
    return ERR_OK;
}

static const report_samples_t *find_part(const metric_start_t *start, const char *part)
{
    for (int i = 0; i < start->n_samples; i++)
        if (strcmp(start->samples[i].part, part) == 0) return &start->samples[i];
    return NULL;
}

static bool all_have(const compare_starts_t *starts, const char *part)
{
    for (int side = 0; side < 2; side++)
        for (int i = 0; i < starts->n[side]; i++)
            if (!find_part(starts->at[side][i], part)) return false;
    return true;
}

static bool are_times(const compare_starts_t *starts, const char *part)
{
    for (int side = 0; side < 2; side++)
        for (int i = 0; i < starts->n[side]; i++) {
            const report_samples_t *samples = find_part(starts->at[side][i], part);
            for (int64_t k = 0; k < samples->n; k++)
                if (!isfinite(samples->sec[k]) || samples->sec[k] <= 0) return false;
        }
    return true;
}

/* Median of the starts' medians, ignoring non-finite samples; NAN: none left. */
static err_t plain_median(const compare_starts_t *starts, int side, const char *part, double *out)
{
    double *medians, *sorted = NULL;
    err_t err = ERR_OK;
    int n_medians = 0;
    TRY(mem_new_array(starts->n[side], sizeof *medians, "medians", &medians));
    for (int i = 0; i < starts->n[side]; i++) {
        const report_samples_t *samples = find_part(starts->at[side][i], part);
        int64_t n = 0;
        TRY_OUT(err, mem_new_array(samples->n, sizeof *sorted, "samples", &sorted));
        for (int64_t k = 0; k < samples->n; k++)
            if (isfinite(samples->sec[k])) sorted[n++] = samples->sec[k];
        if (n > 0) medians[n_medians++] = stats_median(sorted, n);
        mem_free(&sorted);
    }
    *out = n_medians > 0 ? stats_median(medians, n_medians) : NAN;
out:
    mem_free(&medians);
    return err;
}

static const stats_difference_t unknown = {.base = NAN,
                                           .now = NAN,
                                           .ratio = NAN,
                                           .low = NAN,
                                           .high = NAN,
                                           .error = NAN,
                                           .u = NAN,
                                           .p_rank = NAN,
                                           .p = NAN};

/* The samples to compare: of some parts, as in report_samples_t; their quantile is the location. */
typedef struct compare_what {
    const char *const *parts; /* [n_parts] */
    int n_parts;
    double quantile;
    const double
        *rest[2]; /* of all starts of a side one after the other, in place of the last part; NULL: none */
} compare_what_t;

static err_t compare_samples(compare_work_t *work, const compare_starts_t *starts, const compare_what_t *what,
                             stats_difference_t *out)
{
    const compare_options_t *o = work->options;
    const stats_compare_options_t options = {.alpha = o->alpha,
                                             .quantile = what->quantile,
                                             .start_spread = COMPARE_START_SPREAD,
                                             .recording_spread = o->recording_spread,
                                             .starts = starts->starts,
                                             .recordings = starts->recordings,
                                             .n_resamples = o->n_resamples,
                                             .seed = o->seed};
    stats_run_t *runs[2] = {NULL, NULL};
    stats_runs_t sides[2];
    err_t err;
    *out = unknown;
    if (starts->n[0] == 0 || starts->n[1] == 0) return ERR_OK;
    for (int side = 0; side < 2; side++) {
        const int n = starts->n[side];
        const double *rest = what->rest[side];
        TRY_OUT(err, mem_new_array((int64_t)n * what->n_parts, sizeof *runs[side], "starts", &runs[side]));
        for (int i = 0; i < n * what->n_parts; i++) {
            const metric_start_t *start = starts->at[side][i % n];
            const bool is_rest = rest && i / n == what->n_parts - 1;
            const report_samples_t *samples =
                is_rest ? &start->samples[0] : find_part(start, what->parts[i / n]);
            runs[side][i] = (stats_run_t){is_rest ? rest : samples->sec, samples->n, start->batch_n,
                                          start->n_batches, start->run->file};
            if (is_rest) rest += samples->n;
        }
        sides[side] = (stats_runs_t){runs[side], n, what->n_parts};
    }
    err = stats_compare(&sides[0], &sides[1], starts->interleaved, &options, out);
    if (starts->identical) {
        out->ratio = out->low = out->high = out->p_rank = out->p = 1;
        out->error = out->df = 0;
        out->assumed = false;
        out->recordings = (stats_spread_t){0};
    }
out:
    for (int side = 0; side < 2; side++) mem_free(&runs[side]);
    return err;
}

/* Compares one part, which may have samples that are not times above 0: of those only the medians are known. */
static err_t compare_part(compare_work_t *work, const compare_starts_t *starts, const char *part,
                          double quantile, stats_difference_t *out)
{
    const compare_what_t what = {&part, 1, quantile, {NULL, NULL}};
    if (starts->n[0] > 0 && starts->n[1] > 0 && !are_times(starts, part)) {
        *out = unknown;
        TRY(plain_median(starts, 0, part, &out->base));
        return plain_median(starts, 1, part, &out->now);
    }
    return compare_samples(work, starts, &what, out);
}

enum { MAX_PARTS = 16 };

/* Names of the parts that every start has; returns 0 unless all have the same. */
static int common_parts(const compare_starts_t *starts, const char *parts[MAX_PARTS])
{
    const metric_start_t *first = starts->at[0][0];
    const int n = first->n_samples - 1;
    if (n > MAX_PARTS) return 0;
    for (int i = 0; i < n; i++) {
        parts[i] = first->samples[i + 1].part;
        if (!all_have(starts, parts[i]) || !are_times(starts, parts[i])) return 0;
    }
    for (int side = 0; side < 2; side++)
        for (int i = 0; i < starts->n[side]; i++)
            if (starts->at[side][i]->n_samples != first->n_samples) return 0;
    return n;
}

/* What the parts leave of each sample, at least a nanosecond. */
static void set_rest(const metric_start_t *start, double *rest)
{
    for (int64_t i = 0; i < start->samples[0].n; i++) {
        rest[i] = start->samples[0].sec[i];
        for (int part = 1; part < start->n_samples; part++) rest[i] -= start->samples[part].sec[i];
        rest[i] = fmax(rest[i], 1e-9);
    }
}

/* The fastest samples. All parts of a step are seldom undisturbed at once, so they are taken part by part, with what
 * they leave of the step as the last. */
static err_t compare_fastest(compare_work_t *work, const compare_starts_t *starts, compare_metric_t *metric)
{
    static const double quantiles[] = COMPARE_FAST_QUANTILES;
    const char *parts[MAX_PARTS + 1] = {""};
    compare_what_t what = {.parts = parts};
    stats_difference_t *out = &metric->fast, other;
    double *rest[2] = {NULL, NULL};
    err_t err = ERR_OK;
    const int n_parts = starts->n[0] > 0 && starts->n[1] > 0 ? common_parts(starts, parts) : 0;
    for (int side = 0; side < 2 && n_parts > 0; side++) {
        int64_t n = 0;
        for (int i = 0; i < starts->n[side]; i++) n += starts->at[side][i]->samples[0].n;
        TRY_OUT(err, mem_new_array(n, sizeof *rest[side], "the rest of steps", &rest[side]));
        n = 0;
        for (int i = 0; i < starts->n[side]; i++) {
            set_rest(starts->at[side][i], rest[side] + n);
            n += starts->at[side][i]->samples[0].n;
        }
        what.rest[side] = rest[side];
    }
    what.n_parts = n_parts > 0 ? n_parts + 1 : 1;
    if (n_parts == 0) parts[0] = "";
    for (size_t i = 0; i < sizeof quantiles / sizeof *quantiles; i++) {
        what.quantile = quantiles[i];
        TRY_OUT(err, compare_samples(work, starts, &what, &other));
        if (i > 0 && !(other.error < out->error)) continue;
        *out = other;
        metric->fast_quantile = what.quantile;
    }
    out->u = out->p_rank = NAN;
out:
    for (int side = 0; side < 2; side++) mem_free(&rest[side]);
    return err;
}

/* Compares a metric by its medians and by its fastest samples, and chooses what decides. */
static err_t compare_metric(compare_work_t *work, const compare_starts_t *starts, compare_metric_t *metric)
{
    TRY(compare_part(work, starts, "", 0.5, &metric->median));
    TRY(compare_fastest(work, starts, metric));
    metric->by_fast = isfinite(metric->fast.error) &&
                      (starts->disturbed || (!starts->interleaved && metric->median.two_levels));
    if (starts->disturbed && !metric->by_fast && !metric->reason[0])
        metric->reason = "the machine was slow or busy: too few samples were undisturbed";
    metric->difference = metric->by_fast ? metric->fast : metric->median;
    metric->tested = !metric->reason[0] && isfinite(metric->difference.p);
    return ERR_OK;
}

static double change_of(const stats_difference_t *difference)
{
    return difference->now - difference->base;
}

/* What the parts leave of the whole, so that they add up to it: time outside of them, and the difference between
 * the sum of their medians and the median of the whole. */
static compare_part_t remaining_part(const compare_metric_t *metric, const compare_part_t *parts)
{
    compare_part_t other = {.name = "other", .difference = unknown, .share = 1};
    stats_difference_t *d = &other.difference;
    d->base = metric->difference.base, d->now = metric->difference.now;
    for (int i = 0; i < metric->n_parts; i++) {
        d->base -= parts[i].difference.base;
        d->now -= parts[i].difference.now;
        other.share -= parts[i].share;
    }
    if (d->base > 0 && d->now > 0) d->ratio = d->now / d->base;
    return other;
}

/* Compares the metric's parts and attributes its change to one. */
static err_t compare_parts(compare_work_t *work, const compare_starts_t *starts, compare_metric_t *metric)
{
    compare_part_t *parts;
    double whole = change_of(&metric->difference);
    if (starts->n[0] == 0 || starts->n[1] == 0 || starts->at[0][0]->n_samples < 2) return ERR_OK;
    const metric_start_t *first = starts->at[0][0];
    TRY(arena_new(&work->out->arena, sizeof *parts * (size_t)(first->n_samples + 1), &parts));
    for (int i = 1; i < first->n_samples; i++) {
        compare_part_t *part = &parts[metric->n_parts];
        *part = (compare_part_t){.name = first->samples[i].part, .share = NAN};
        if (!all_have(starts, part->name)) continue;
        TRY(compare_part(work, starts, part->name, metric->by_fast ? metric->fast_quantile : 0.5,
                         &part->difference));
        if (fabs(whole) > 0) part->share = change_of(&part->difference) / whole;
        metric->n_parts++;
    }
    if (metric->n_parts > 0) {
        parts[metric->n_parts] = remaining_part(metric, parts);
        metric->n_parts++;
    }
    metric->parts = parts;
    if (metric->verdict != VERDICT_WORSE && metric->verdict != VERDICT_BETTER) return ERR_OK;
    for (int i = 0; i < metric->n_parts; i++)
        if (parts[i].share > 0 && !(metric->attributed_to && parts[i].share <= metric->attributed_to->share))
            metric->attributed_to = &parts[i];
    return ERR_OK;
}

const char *const verdict_names[VERDICTS] = {"same", "better", "worse", "inconclusive"};

/* An end: "+3.1 %", "beyond ×10", "beyond ÷10"; NAN: "-". */
static figure_t interval_end(double ratio)
{
    if (ratio > INTERVAL_MAX_RATIO) return (figure_t){"beyond ×10"};
    if (ratio < 1 / INTERVAL_MAX_RATIO) return (figure_t){"beyond ÷10"};
    return figure_change(ratio - 1);
}

static bool is_number(double ratio)
{
    return ratio >= 1 / INTERVAL_MAX_RATIO && ratio <= INTERVAL_MAX_RATIO;
}

err_t interval_text(arena_t *arena, double low, double high, const char **out)
{
    figure_t from = interval_end(low), to = interval_end(high);
    bool beyond_both = low < 1 / INTERVAL_MAX_RATIO && high > INTERVAL_MAX_RATIO;
    *out = isnan(low) || isnan(high) ? "-" : "unknown";
    if (isnan(low) || isnan(high) || beyond_both) return ERR_OK;
    if (strcmp(from.text, to.text) == 0 && !is_number(low)) return arena_format(arena, out, "%s", to.text);
    int n = (int)strlen(from.text) - (is_number(low) && is_number(high) ? 2 : 0); /* one " %" for both */
    return arena_format(arena, out, "%.*s … %s", n, from.text, to.text);
}

static err_t explain_inconclusive(compare_work_t *work, compare_metric_t *metric)
{
    const stats_difference_t *d = &metric->difference;
    const compare_options_t *o = work->options;
    arena_t *arena = &work->out->arena;
    const char *interval, *slower = d->ratio > 1 ? "slower" : "faster";
    if (d->low < 1 / INTERVAL_MAX_RATIO && d->high > INTERVAL_MAX_RATIO)
        interval = "the interval is unknown";
    else
        TRY(arena_format(arena, &interval, "the interval is %s to %s", interval_end(d->low).text,
                         interval_end(d->high).text));
    if (!isfinite(d->high)) {
        metric->reason = "too few samples for an interval";
        return ERR_OK;
    }
    if (d->assumed) {
        metric->reason = "one start on a side: the variation between starts is unknown";
        return ERR_OK;
    }
    if (isinf(d->recordings.df) && d->recordings.deviation > d->error / 2)
        return arena_format(
            arena, &metric->reason,
            "%s; few recordings: the variation between recordings is assumed: record on more days", interval);
    bool clear = d->low > 1 || d->high < 1, found = metric->q <= o->alpha;
    double least = 1 + o->min_effect;
    if (clear && found)
        return arena_format(arena, &metric->reason,
                            "%s, but possibly by less than the minimum effect of %.3g %%: %s", slower,
                            100 * o->min_effect, interval);
    if (clear && d->p > o->alpha)
        return arena_format(arena, &metric->reason,
                            "%s, but the order of the batches may be chance (p %.2g): record more starts",
                            interval, d->p);
    if (clear && (d->ratio >= least || d->ratio <= 1 / least))
        return arena_format(arena, &metric->reason,
                            "%s, but among this many metrics it may be chance (q %.2g): record more starts",
                            interval, metric->q);
    return arena_format(arena, &metric->reason, "%s: record more starts", interval);
}

static err_t judge_metric(compare_work_t *work, compare_metric_t *metric)
{
    const stats_difference_t *d = &metric->difference;
    const compare_options_t *o = work->options;
    double least = 1 + o->min_effect;
    metric->verdict = VERDICT_INCONCLUSIVE;
    if (!metric->tested) return ERR_OK;
    if (d->assumed) return explain_inconclusive(work, metric);
    if (metric->q <= o->alpha && d->low > 1 && d->ratio >= least)
        metric->verdict = VERDICT_WORSE;
    else if (metric->q <= o->alpha && d->high < 1 && d->ratio <= 1 / least)
        metric->verdict = VERDICT_BETTER;
    else if (d->low >= 1 / least && d->high <= least)
        metric->verdict = VERDICT_SAME;
    else
        return explain_inconclusive(work, metric);
    return ERR_OK;
}

static err_t find_detectable(comparison_t *c, const compare_options_t *options)
{
    double *shares;
    int n = 0, n_tests = 0;
    for (const compare_metric_t *at = c->metrics; at; at = at->next) n_tests += at->tested;
    TRY(mem_new_array(c->n_metrics, sizeof *shares, "shares", &shares));
    for (compare_metric_t *at = c->metrics; at; at = at->next) {
        at->detectable =
            at->tested && !at->difference.assumed
                ? stats_detectable(&at->difference, options->min_effect, options->alpha / n_tests)
                : NAN;
        if (isfinite(at->detectable)) shares[n++] = at->detectable;
    }
    c->detectable = n > 0 ? stats_median(shares, n) : NAN;
    mem_free(&shares);
    return ERR_OK;
}

/* "gemm" or "mem/copy". */
static bool is_named(const compare_metric_t *metric, const char *name, size_t n)
{
    const size_t n_case = strlen(metric->case_name), n_test = strlen(metric->test);
    if (n < n_case || memcmp(name, metric->case_name, n_case) != 0) return false;
    return n == n_case || (n == n_case + 1 + n_test && name[n_case] == '/' &&
                           memcmp(name + n_case + 1, metric->test, n_test) == 0);
}

/* Marks the metrics that must decide, and counts those that do not. A name that no metric has counts, too. */
static err_t find_undecided(comparison_t *c, const char *names)
{
    c->not_measured = "";
    for (const char *at = names; at && *at; at += strcspn(at, ",") + (at[strcspn(at, ",")] == ',')) {
        const size_t n = strcspn(at, ",");
        bool found = n == 0;
        for (compare_metric_t *metric = c->metrics; metric; metric = metric->next) {
            if (!is_named(metric, at, n)) continue;
            found = metric->must_decide = true;
        }
        if (found) continue;
        c->n_undecided++;
        if (!c->not_measured[0]) TRY(arena_text(&c->arena, at, n, &c->not_measured));
    }
    for (const compare_metric_t *at = c->metrics; at; at = at->next)
        c->n_undecided += at->must_decide && at->verdict == VERDICT_INCONCLUSIVE;
    return ERR_OK;
}

static err_t find_rates(comparison_t *c)
{
    double *p, *q = NULL;
    err_t err;
    int i = 0;
    TRY(mem_new_array(c->n_metrics, sizeof *p, "chances", &p));
    TRY_OUT(err, mem_new_array(c->n_metrics, sizeof *q, "rates", &q));
    for (const compare_metric_t *at = c->metrics; at; at = at->next)
        p[i++] = at->tested ? at->difference.p : NAN;
    TRY_OUT(err, stats_benjamini_hochberg(p, c->n_metrics, q));
    i = 0;
    for (compare_metric_t *at = c->metrics; at; at = at->next) at->q = q[i++];
out:
    mem_free(&p);
    mem_free(&q);
    return err;
}

static err_t compare_metrics(compare_work_t *work)
{
    static const verdict_t order[VERDICTS] = {VERDICT_WORSE, VERDICT_INCONCLUSIVE, VERDICT_BETTER,
                                              VERDICT_SAME};
    comparison_t *c = work->out;
    arena_t *arena = &c->arena;
    compare_starts_t *starts;
    err_t err = ERR_OK;
    int i = 0;
    TRY(mem_new_array(work->sides[0].n, sizeof *starts, "metrics", &starts));
    for (const metric_t *base = work->sides[0].first; base; base = base->next) {
        const metric_t *now = metrics_find(&work->sides[1], base->case_name, base->test, base->key);
        compare_metric_t *metric;
        if (!now) continue;
        TRY_OUT(err, arena_new(arena, sizeof *metric, &metric));
        *metric = (compare_metric_t){.q = NAN, .verdict = VERDICT_INCONCLUSIVE, .reason = ""};
        /* Copies: the list of metrics is freed before the comparison. */
        TRY_OUT(err, arena_text(arena, base->case_name, strlen(base->case_name), &metric->case_name));
        TRY_OUT(err, arena_text(arena, base->test, strlen(base->test), &metric->test));
        TRY_OUT(err, arena_text(arena, base->key, strlen(base->key), &metric->key));
        TRY_OUT(err, arena_text(arena, base->label, strlen(base->label), &metric->label));
        if (c->last)
            c->last->next = metric;
        else
            c->metrics = metric;
        c->last = metric;
        c->n_metrics++;
        const metric_t *const both[2] = {base, now};
        TRY_OUT(err, compare_pick_starts(work, both, metric, &starts[i]));
        if (work->options->history)
            TRY_OUT(err, history_spread(work->options->history, now->starts->run, metric->case_name,
                                        metric->test, metric->key, &starts[i].starts, &starts[i].recordings));
        TRY_OUT(err, compare_metric(work, &starts[i], metric));
        i++;
    }
    TRY_OUT(err, find_rates(c));
    i = 0;
    for (compare_metric_t *at = c->metrics; at; at = at->next) {
        TRY_OUT(err, judge_metric(work, at));
        TRY_OUT(err, compare_parts(work, &starts[i++], at));
    }
    TRY_OUT(err, find_detectable(c, work->options));
    TRY_OUT(err, find_undecided(c, work->options->must_decide));
    for (const compare_metric_t *at = c->metrics; at; at = at->next) c->n_of[at->verdict]++;
    for (i = 0; i < VERDICTS - 1 && c->n_of[order[i]] == 0;) i++;
    c->verdict = order[i];
    err = compare_note_starts(work);
out:
    mem_free(&starts);
    return err;
}

err_t compare_reports(const report_t *base, const report_t *now, const compare_options_t *options,
                      comparison_t *out)
{
    enum { MAX_SHOWN = 3 };
    compare_work_t work = {.out = out, .options = options};
    const char *alone[2] = {"", ""}; /* metrics that only this side has */
    int n_alone[2] = {0, 0};
    err_t err;
    out->base = base;
    out->now = now;
    TRY_OUT(err, metrics_list(base, &work.sides[0]));
    TRY_OUT(err, metrics_list(now, &work.sides[1]));
    TRY_OUT(err, compare_check_sides(&work));
    for (int side = 0; side < 2; side++) {
        const char **list = &alone[side];
        for (const metric_t *at = work.sides[side].first; at; at = at->next) {
            if (metrics_find(&work.sides[1 - side], at->case_name, at->test, at->key)) continue;
            if (n_alone[side]++ >= MAX_SHOWN) continue;
            TRY_OUT(err,
                    arena_format(&out->arena, list, "%s%s%s %s%s%s", *list, n_alone[side] > 1 ? ", " : "",
                                 at->case_name, at->test, at->key[0] ? " " : "", at->key));
        }
        if (n_alone[side] > MAX_SHOWN)
            TRY_OUT(err, arena_format(&out->arena, list, "%s and %d more", *list, n_alone[side] - MAX_SHOWN));
    }
    if (n_alone[0] == work.sides[0].n)
        RAISE_OUT(err, ERR_DATA, "the recordings have no metric in common; base has %s; new has %s",
                  n_alone[0] ? alone[0] : "none", n_alone[1] ? alone[1] : "none");
    for (int side = 0; side < 2; side++)
        if (n_alone[side] > 0)
            TRY_OUT(err, compare_note(&work, "only in %s (%d): %s", compare_side_names[side], n_alone[side],
                                      alone[side]));
    err = compare_metrics(&work);
out:
    for (int side = 0; side < 2; side++) metrics_free(&work.sides[side]);
    return err;
}

bool compare_decided(const comparison_t *comparison)
{
    return comparison->n_of[VERDICT_WORSE] > 0 ||
           comparison->n_of[VERDICT_INCONCLUSIVE] <= COMPARE_MAX_INCONCLUSIVE * comparison->n_metrics;
}

void compare_free(comparison_t *comparison)
{
    mem_free(&comparison->notes);
    arena_free(&comparison->arena);
    *comparison = (comparison_t){0};
}
