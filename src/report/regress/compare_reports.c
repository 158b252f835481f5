/* SPDX-License-Identifier: MIT */
/* Runs a comparison: the difference of each metric, false discovery rates over all, verdicts. */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/figure.h"
#include "base/mem.h"
#include "report/regress/compare_work.h"
#include "report/regress/interval.h"
#include "report/stats/rank.h"

enum { MAX_SHOWN = 3 };

const char *const verdict_names[VERDICTS] = {"same", "better", "worse", "inconclusive"};

err_t compare_note(compare_work_t *work, const char *format, ...)
{
    comparison_t *out = work->out;
    const char *text;
    va_list args;
    va_start(args, format);
    err_t err = arena_vformat(&out->arena, &text, format, args);
    va_end(args);
    TRY(err);
    TRY(mem_grow(out->n_notes + 1, sizeof *out->notes, "notes", &out->notes));
    out->notes[out->n_notes++] = text;
    return ERR_OK;
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

static err_t add_metric(compare_work_t *work, const metric_t *base, compare_metric_t **out)
{
    comparison_t *c = work->out;
    compare_metric_t *metric;
    TRY(arena_new(&c->arena, sizeof *metric, &metric));
    *metric = (compare_metric_t){.q = NAN, .verdict = VERDICT_INCONCLUSIVE, .reason = ""};
    /* Copies: the list of metrics is freed before the comparison. */
    TRY(arena_text(&c->arena, base->case_name, strlen(base->case_name), &metric->case_name));
    TRY(arena_text(&c->arena, base->test, strlen(base->test), &metric->test));
    TRY(arena_text(&c->arena, base->key, strlen(base->key), &metric->key));
    TRY(arena_text(&c->arena, base->label, strlen(base->label), &metric->label));
    if (c->last)
        c->last->next = metric;
    else
        c->metrics = metric;
    c->last = metric;
    c->n_metrics++;
    *out = metric;
    return ERR_OK;
}

/* Lists the metrics that only this side has. *n: their number. */
static err_t list_alone(compare_work_t *work, int side, const char **list, int *n)
{
    *list = "";
    *n = 0;
    for (const metric_t *at = work->sides[side].first; at; at = at->next) {
        if (metrics_find(&work->sides[1 - side], at->case_name, at->test, at->key)) continue;
        if ((*n)++ >= MAX_SHOWN) continue;
        TRY(arena_format(&work->out->arena, list, "%s%s%s %s%s%s", *list, *n > 1 ? ", " : "", at->case_name,
                         at->test, at->key[0] ? " " : "", at->key));
    }
    return *n > MAX_SHOWN ? arena_format(&work->out->arena, list, "%s and %d more", *list, *n - MAX_SHOWN)
                          : ERR_OK;
}

static err_t note_alone(compare_work_t *work)
{
    const char *list[2];
    int n[2];
    for (int side = 0; side < 2; side++) TRY(list_alone(work, side, &list[side], &n[side]));
    if (n[0] == work->sides[0].n)
        RAISE(ERR_DATA, "the recordings have no metric in common; base has %s; new has %s",
              n[0] ? list[0] : "none", n[1] ? list[1] : "none");
    if (n[0] > 0) TRY(compare_note(work, "only in base (%d): %s", n[0], list[0]));
    return n[1] > 0 ? compare_note(work, "only in new (%d): %s", n[1], list[1]) : ERR_OK;
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

static void count_verdicts(comparison_t *c)
{
    static const verdict_t order[VERDICTS] = {VERDICT_WORSE, VERDICT_INCONCLUSIVE, VERDICT_BETTER,
                                              VERDICT_SAME};
    for (const compare_metric_t *at = c->metrics; at; at = at->next) c->n_of[at->verdict]++;
    int i = 0;
    while (i < VERDICTS - 1 && c->n_of[order[i]] == 0) i++;
    c->verdict = order[i];
}

static err_t compare_metrics(compare_work_t *work)
{
    comparison_t *c = work->out;
    compare_starts_t *starts;
    err_t err = ERR_OK;
    int i = 0;
    TRY(mem_new_array(work->sides[0].n, sizeof *starts, "metrics", &starts));
    for (const metric_t *base = work->sides[0].first; base; base = base->next) {
        const metric_t *now = metrics_find(&work->sides[1], base->case_name, base->test, base->key);
        compare_metric_t *metric;
        if (!now) continue;
        TRY_OUT(err, add_metric(work, base, &metric));
        const metric_t *const both[2] = {base, now};
        TRY_OUT(err, compare_pick_starts(work, both, metric, &starts[i]));
        TRY_OUT(err, compare_samples(work, &starts[i], "", &metric->difference));
        metric->tested = !metric->reason[0] && isfinite(metric->difference.p);
        i++;
    }
    TRY_OUT(err, find_rates(c));
    i = 0;
    for (compare_metric_t *at = c->metrics; at; at = at->next) {
        TRY_OUT(err, judge_metric(work, at));
        TRY_OUT(err, compare_parts(work, &starts[i++], at));
    }
    count_verdicts(c);
    err = compare_note_starts(work);
out:
    mem_free(&starts);
    return err;
}

static err_t compare_all(compare_work_t *work)
{
    TRY(metrics_list(work->out->base, &work->sides[0]));
    TRY(metrics_list(work->out->now, &work->sides[1]));
    TRY(compare_check_sides(work));
    TRY(note_alone(work));
    return compare_metrics(work);
}

err_t compare_reports(const report_t *base, const report_t *now, const compare_options_t *options,
                      comparison_t *out)
{
    compare_work_t work = {.out = out, .options = options};
    out->base = base;
    out->now = now;
    err_t err = compare_all(&work);
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
