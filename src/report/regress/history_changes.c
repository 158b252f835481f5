/* SPDX-License-Identifier: MIT */
/* Change points and drifts of the metrics of a history: candidates of all metrics, false discoveries among them, and
 * what remains as levels. report/stats has the tests. */
#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "base/stats.h"
#include "report/regress/history.h"

/* A possible change; false discoveries are removed when all are known. */
typedef struct candidate {
    history_metric_t *metric;
    stats_change_t change; /* at: index among the metric's undisturbed values */
} candidate_t;

typedef struct search {
    history_t *history;
    const history_options_t *options;
    double alpha; /* for candidates */
    int n_permutations;
    int *n_found;            /* candidates per metric; -1: series too short */
    candidate_t *candidates; /* grouped by metric */
    double *p, *q;           /* of candidates; then an entry for each metric without one */
    int n, n_tests;
} search_t;

/* Scratch for the series of any metric. */
typedef struct series {
    double *values;
    int *recordings;
    stats_change_t *changes;
} series_t;

/* Copies the undisturbed values of a metric and their recordings. Returns their number. */
static int copy_series(const history_metric_t *metric, double *values, int *recordings)
{
    int n = 0;
    for (int i = 0; i < metric->n_values; i++) {
        if (metric->values[i].disturbed) continue;
        recordings[n] = metric->values[i].recording;
        values[n++] = metric->values[i].sec;
    }
    return n;
}

static err_t search_metric(search_t *s, history_metric_t *metric, const series_t *series, int *n_found)
{
    const history_options_t *o = s->options;
    const stats_change_options_t options = {s->alpha, o->min_effect, s->n_permutations, o->seed};
    int n = copy_series(metric, series->values, series->recordings);
    metric->too_short = n < HISTORY_MIN_VALUES;
    *n_found = -1;
    if (metric->too_short) return ERR_OK;
    TRY(stats_change_points(series->values, n, &options, series->changes, n, n_found));
    TRY(mem_grow(s->n + *n_found, sizeof *s->candidates, "change points", &s->candidates));
    for (int i = 0; i < *n_found; i++) s->candidates[s->n++] = (candidate_t){metric, series->changes[i]};
    s->n_tests += *n_found ? *n_found : 1;
    return ERR_OK;
}

/* again: search only metrics that had candidates, and replace these. */
static err_t search_all(search_t *s, bool again)
{
    series_t series = {0};
    err_t err = ERR_OK;
    int at = 0;
    s->n = s->n_tests = 0;
    TRY_OUT(err, mem_new_array(s->history->n_recordings, sizeof(double), "a series", &series.values));
    TRY_OUT(err, mem_new_array(s->history->n_recordings, sizeof(int), "a series", &series.recordings));
    TRY_OUT(err, mem_new_array(s->history->n_recordings, sizeof(stats_change_t), "changes", &series.changes));
    for (history_group_t *group = s->history->groups; group; group = group->next)
        for (history_metric_t *metric = group->metrics; metric; metric = metric->next, at++) {
            if (again && s->n_found[at] == 0) s->n_tests++;
            if (again && s->n_found[at] <= 0) continue;
            TRY_OUT(err, search_metric(s, metric, &series, &s->n_found[at]));
            group->n_too_short += metric->too_short;
        }
out:
    mem_free(&series.values);
    mem_free(&series.recordings);
    mem_free(&series.changes);
    return err;
}

/* The smallest p is 1 / (1 + n_permutations), and among n tests k candidates count if p ≤ alpha k / n. So a
 * pass with few permutations selects metrics, and a second pass uses as many as k and n require. Few
 * permutations do not resolve p below 1 %: a smaller alpha applies to the second pass only. */
static err_t search_enough(search_t *s)
{
    enum { FEW = 999, MOST = 1000000 };
    const double few_alpha = 0.01, alpha = s->options->alpha;
    s->alpha = fmax(alpha, few_alpha);
    s->n_permutations = FEW;
    TRY(search_all(s, false));
    if (s->n == 0) return ERR_OK;
    double wanted = 2.0 * s->n_tests / (s->n * alpha);
    if (wanted <= FEW && alpha >= few_alpha) return ERR_OK;
    s->alpha = alpha;
    s->n_permutations = (int)fmin(fmax(wanted, FEW), MOST);
    return search_all(s, true);
}

/* Skips the revision, which is reported separately. */
static err_t find_differences(arena_t *arena, const report_fields_t *before, const report_fields_t *after,
                              history_change_t *change)
{
    history_difference_t *out;
    TRY(arena_new(arena, sizeof *out * (size_t)(before->n + after->n + 1), &out));
    for (int i = 0; i < before->n + after->n; i++) {
        const char *name = i < before->n ? before->at[i].name : after->at[i - before->n].name;
        const report_field_t *old = fields_find(*before, name), *new = fields_find(*after, name);
        if ((i >= before->n && old) || strcmp(name, "git") == 0) continue;
        const history_difference_t d = {name, old ? old->text : "", new ? new->text : ""};
        if (strcmp(d.before, d.after) != 0) out[change->n_differences++] = d;
    }
    change->differences = out;
    return ERR_OK;
}

/* The revision does not identify a dirty tree. Texts are interned. */
static bool same_revision(const char *before, const char *after)
{
    size_t n = strlen(after), tail = strlen("-dirty");
    if (before != after || n == 0) return false;
    return n < tail || strcmp(after + n - tail, "-dirty") != 0;
}

/* The remaining changes of a metric. */
typedef struct cuts {
    double *values; /* sorted within levels by stats_median, which is harmless: levels are only merged */
    const candidate_t **at; /* [n] */
    int n, n_values;
} cuts_t;

/* Median from cut i to the next; -1: from the start. */
static double level_after(const cuts_t *cuts, int i)
{
    int from = i < 0 ? 0 : cuts->at[i]->change.at,
        to = i + 1 < cuts->n ? cuts->at[i + 1]->change.at : cuts->n_values;
    return stats_median(cuts->values + from, to - from);
}

/* Merges the levels around the smallest change below min_effect. Removing false discoveries changed the
 * levels that the search saw. false: none is left. */
static bool drop_smallest(cuts_t *cuts, double min_effect)
{
    double least = INFINITY;
    int drop = -1;
    for (int i = 0; i < cuts->n; i++) {
        double ratio = level_after(cuts, i) / level_after(cuts, i - 1);
        if (fabs(ratio - 1) < min_effect && fabs(log(ratio)) < least) least = fabs(log(ratio)), drop = i;
    }
    if (drop < 0) return false;
    cuts->n--;
    for (int i = drop; i < cuts->n; i++) cuts->at[i] = cuts->at[i + 1];
    return true;
}

/* Replaces the changes of a metric by a drift if that explains it better. */
static err_t find_drift(history_t *history, const history_options_t *options, history_metric_t *metric,
                        cuts_t *cuts, const int *recordings)
{
    stats_drift_t drift;
    history_drift_t *out;
    int *at;
    TRY(mem_new_array(cuts->n, sizeof *at, "changes", &at));
    for (int i = 0; i < cuts->n; i++) at[i] = cuts->at[i]->change.at;
    const err_t err = stats_find_drift(cuts->values, cuts->n_values, at, cuts->n, &drift);
    mem_free(&at);
    TRY(err);
    if (!drift.is_better || drift.p > options->alpha) return ERR_OK;
    if (fabs(drift.last / drift.first - 1) < options->min_effect) return ERR_OK;
    TRY(arena_new(&history->arena, sizeof *out, &out));
    *out = (history_drift_t){recordings[0], recordings[cuts->n_values - 1], drift.first, drift.last, drift.p};
    metric->drift = out;
    cuts->n = 0;
    return ERR_OK;
}

/* The metric's candidates are [first, first + n). */
static err_t fill_metric(search_t *s, history_group_t *group, history_metric_t *metric, int first, int n)
{
    arena_t *arena = &s->history->arena;
    cuts_t cuts = {0};
    int *recordings = NULL;
    history_change_t *changes;
    double *levels;
    err_t err = ERR_OK;
    TRY_OUT(err, mem_new_array(metric->n_values, sizeof *cuts.values, "a series", &cuts.values));
    TRY_OUT(err, mem_new_array(metric->n_values, sizeof *recordings, "a series", &recordings));
    TRY_OUT(err, mem_new_array(n + 1, sizeof *cuts.at, "a series", &cuts.at));
    cuts.n_values = copy_series(metric, cuts.values, recordings);
    for (int i = first; i < first + n; i++)
        if (s->q[i] <= s->options->alpha) cuts.at[cuts.n++] = &s->candidates[i];
    /* Before drop_smallest, which sorts the values. */
    if (cuts.n > 0) TRY_OUT(err, find_drift(s->history, s->options, metric, &cuts, recordings));
    while (drop_smallest(&cuts, s->options->min_effect)) continue;
    TRY_OUT(err, arena_new(arena, sizeof *changes * (size_t)(cuts.n + 1), &changes));
    TRY_OUT(err, arena_new(arena, sizeof *levels * (size_t)(cuts.n + 1), &levels));
    levels[0] = level_after(&cuts, -1);
    for (int i = 0; i < cuts.n; i++) {
        int at = cuts.at[i]->change.at;
        history_change_t *change = &changes[i];
        levels[i + 1] = level_after(&cuts, i);
        *change = (history_change_t){.before = recordings[at - 1],
                                     .after = recordings[at],
                                     .ratio = levels[i + 1] / levels[i],
                                     .p = cuts.at[i]->change.p,
                                     .q = s->q[cuts.at[i] - s->candidates]};
        const history_recording_t *before = &group->recordings[change->before],
                                  *after = &group->recordings[change->after];
        change->same_revision = same_revision(before->git, after->git);
        TRY_OUT(err, find_differences(arena, &before->software, &after->software, change));
    }
    metric->changes = changes;
    metric->levels = levels;
    metric->n_changes = cuts.n;
    group->n_changed += metric->n_changes > 0;
    group->n_drifting += metric->drift != NULL;
out:
    mem_free(&cuts.values);
    mem_free(&recordings);
    mem_free(&cuts.at);
    return err;
}

err_t history_find_changes(history_t *history, const history_options_t *options)
{
    search_t s = {.history = history, .options = options};
    int n_metrics = 0, first = 0;
    err_t err;
    for (const history_group_t *group = history->groups; group; group = group->next)
        n_metrics += group->n_metrics;
    TRY_OUT(err, mem_new_array(n_metrics, sizeof *s.n_found, "metrics", &s.n_found));
    TRY_OUT(err, search_enough(&s));
    /* Metrics without a candidate count as tests with p = 1. Otherwise the candidates would be the only tests,
     * and none would be rejected. */
    TRY_OUT(err, mem_new_array(s.n_tests, sizeof *s.p, "p of change points", &s.p));
    TRY_OUT(err, mem_new_array(s.n_tests, sizeof *s.q, "q of change points", &s.q));
    for (int i = 0; i < s.n_tests; i++) s.p[i] = i < s.n ? s.candidates[i].change.p : 1;
    TRY_OUT(err, stats_benjamini_hochberg(s.p, s.n_tests, s.q));
    for (history_group_t *group = history->groups; group; group = group->next)
        for (history_metric_t *metric = group->metrics; metric; metric = metric->next) {
            int n = 0;
            while (first + n < s.n && s.candidates[first + n].metric == metric) n++;
            TRY_OUT(err, fill_metric(&s, group, metric, first, n));
            first += n;
        }
out:
    mem_free(&s.n_found);
    mem_free(&s.candidates);
    mem_free(&s.p);
    mem_free(&s.q);
    return err;
}

double history_level(const history_metric_t *metric, int recording)
{
    const history_drift_t *drift = metric->drift;
    int level = 0;
    if (drift) {
        const double share = drift->last > drift->first
                                 ? (double)(recording - drift->first) / (drift->last - drift->first)
                                 : 0;
        return drift->from * pow(drift->to / drift->from, share);
    }
    while (level < metric->n_changes && recording >= metric->changes[level].after) level++;
    return metric->levels[level];
}

int history_count_slower(const history_t *history, int n)
{
    int n_slower = 0;
    for (const history_group_t *group = history->groups; group; group = group->next)
        for (const history_metric_t *metric = group->metrics; metric; metric = metric->next) {
            for (int i = 0; i < metric->n_changes; i++)
                n_slower +=
                    metric->changes[i].ratio > 1 && metric->changes[i].after >= group->n_recordings - n;
            n_slower += metric->drift && metric->drift->to > metric->drift->from;
        }
    return n_slower;
}
