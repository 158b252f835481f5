/* SPDX-License-Identifier: MIT */
/* Prints a comparison: as one JSON object (docs/records.md), or recordings, table, sources of changes, inconclusive
 * metrics, notes, and last the summary, so that a terminal shows it. */
#include <math.h>
#include <string.h>

#include "base/stats.h"
#include "records/record.h"
#include "report/records/report.h"
#include "report/regress/compare.h"
#include "report/regress/parts.h"
#include "text/figure.h"

static void put_pair(json_t *j, const char *key, int64_t base, int64_t now)
{
    json_array_begin(j, key);
    json_int(j, NULL, base);
    json_int(j, NULL, now);
    json_array_end(j);
}

static void put_interval(json_t *j, const stats_difference_t *d)
{
    json_real(j, "ratio", d->ratio);
    json_real(j, "low", d->low);
    json_real(j, "high", d->high);
    json_real(j, "error", d->error);
}

static void put_difference(json_t *j, const stats_difference_t *d)
{
    json_real(j, "base_sec", d->base);
    json_real(j, "new_sec", d->now);
    put_interval(j, d);
    json_real(j, "u", d->u);
    json_real(j, "p_rank", d->p_rank);
    json_real(j, "p", d->p);
    put_pair(j, "batches", d->n_batches[0], d->n_batches[1]);
    json_bool(j, "start_spread_assumed", d->assumed);
}

/* A ratio beside the one that decides. */
static void put_ratio(json_t *j, const char *key, const stats_difference_t *d)
{
    json_object_begin(j, key);
    put_interval(j, d);
    json_real(j, "p", d->p);
    json_object_end(j);
}

/* Where the spread between recordings comes from; NULL: none was added. */
static const char *spread_source(const stats_difference_t *d)
{
    return !(d->recordings.df > 0) ? NULL : isinf(d->recordings.df) ? "assumed" : "measured";
}

static void put_text(json_t *j, const char *key, const char *text)
{
    json_string(j, key, text[0] ? text : NULL);
}

static void put_side(json_t *j, const char *key, const compare_side_t *side, const report_t *report)
{
    json_object_begin(j, key);
    json_array_begin(j, "files");
    for (int i = 0; i < report->n_files; i++) json_string(j, NULL, report->files[i].name);
    json_array_end(j);
    json_int(j, "recordings", side->n_recordings);
    json_int(j, "runs", side->n_runs);
    json_int(j, "runs_excluded", side->n_left_out);
    put_text(j, "first", side->first);
    put_text(j, "last", side->last);
    put_text(j, "git", side->git);
    json_object_end(j);
}

err_t compare_print_json(const comparison_t *comparison, const compare_options_t *options, FILE *out)
{
    json_t j = {0};
    record_begin(&j, RECORD_COMPARISON);
    json_int(&j, "schema", RECORD_SCHEMA);
    json_string(&j, "verdict", verdict_names[comparison->verdict]);
    json_bool(&j, "decided", compare_decided(comparison));
    json_object_begin(&j, "n");
    for (int i = 0; i < VERDICTS; i++) json_int(&j, verdict_names[i], comparison->n_of[i]);
    json_object_end(&j);
    json_object_begin(&j, "options");
    json_real(&j, "min_effect", options->min_effect);
    json_real(&j, "alpha", options->alpha);
    json_real(&j, "recording_spread", options->recording_spread);
    json_bool(&j, "force", options->force);
    json_int(&j, "resamples", options->n_resamples);
    json_int(&j, "seed", (int64_t)options->seed);
    json_string(&j, "must_decide", options->must_decide);
    json_object_end(&j);
    json_real(&j, "detectable", comparison->detectable);
    json_int(&j, "undecided", comparison->n_undecided);
    put_side(&j, "base", &comparison->sides[0], comparison->base);
    put_side(&j, "new", &comparison->sides[1], comparison->now);
    json_array_begin(&j, "metrics");
    for (const compare_metric_t *at = comparison->metrics; at; at = at->next) {
        json_object_begin(&j, NULL);
        json_string(&j, "case", at->case_name);
        json_string(&j, "test", at->test);
        json_string(&j, "key", at->key);
        json_string(&j, "label", at->label);
        json_string(&j, "verdict", verdict_names[at->verdict]);
        json_string(&j, "reason", at->reason[0] ? at->reason : NULL);
        json_bool(&j, "tested", at->tested);
        json_bool(&j, "interleaved", at->interleaved);
        json_real(&j, "q", at->q);
        json_string(&j, "decided_by", at->by_fast ? "fastest" : "median");
        put_difference(&j, &at->difference);
        put_ratio(&j, "median", &at->median);
        put_ratio(&j, "fastest", &at->fast);
        json_real(&j, "fastest_quantile", at->fast_quantile);
        json_string(&j, "recording_spread_source", spread_source(&at->difference));
        json_real(&j, "recording_spread",
                  spread_source(&at->difference) ? at->difference.recordings.deviation : NAN);
        json_real(&j, "detectable", at->detectable);
        json_bool(&j, "must_decide", at->must_decide);
        put_pair(&j, "starts", at->n_runs[0], at->n_runs[1]);
        put_pair(&j, "slowed_starts", at->n_slowed[0], at->n_slowed[1]);
        put_pair(&j, "samples", at->n_samples[0], at->n_samples[1]);
        put_pair(&j, "invalid_samples", at->n_invalid[0], at->n_invalid[1]);
        json_array_begin(&j, "parts");
        for (int i = 0; i < at->n_parts; i++) {
            json_object_begin(&j, NULL);
            json_string(&j, "name", at->parts[i].name);
            json_real(&j, "share", at->parts[i].share);
            put_difference(&j, &at->parts[i].difference);
            json_object_end(&j);
        }
        json_array_end(&j);
        json_string(&j, "attributed_to", at->attributed_to ? at->attributed_to->name : NULL);
        json_object_end(&j);
    }
    json_array_end(&j);
    json_array_begin(&j, "notes");
    for (int i = 0; i < comparison->n_notes; i++) json_string(&j, NULL, comparison->notes[i]);
    json_array_end(&j);
    json_object_end(&j);
    err_t err = j.status;
    if (err == ERR_OK) fprintf(out, "%s\n", j.text); /* the caller checks the stream for errors */
    json_free(&j);
    return err;
}

typedef struct view {
    const comparison_t *comparison;
    const compare_options_t *options;
    const render_t *render;
    FILE *out;
    arena_t arena;
} view_t;

static err_t change_text(view_t *v, double ratio, const char **out)
{
    return arena_format(&v->arena, out, "%s", figure_change(ratio - 1).text);
}

/* How much recordings vary, and how it is known; "": nothing was added for it. */
static err_t variation_text(view_t *v, const char **out)
{
    const comparison_t *c = v->comparison;
    double *measured;
    int n_measured = 0, n_assumed = 0;
    TRY(arena_new(&v->arena, sizeof *measured * (size_t)(c->n_metrics + 1), &measured));
    for (const compare_metric_t *at = c->metrics; at; at = at->next) {
        n_assumed += isinf(at->difference.recordings.df);
        if (at->difference.measured > 0) measured[n_measured++] = at->difference.measured;
    }
    const figure_t median = figure_percent(stats_median(measured, n_measured)),
                   assumed = figure_percent(v->options->recording_spread);
    *out = "";
    if (n_measured > 0 && n_assumed > 0)
        return arena_format(
            &v->arena, out,
            "recordings differ by %s (median over the metrics), measured on few; %s is assumed where that "
            "finds more",
            median.text, assumed.text);
    if (n_measured > 0)
        return arena_format(&v->arena, out, "recordings differ by %s (measured, median over the metrics)",
                            median.text);
    if (n_assumed == 0) return ERR_OK;
    return arena_format(&v->arena, out, "recordings are assumed to differ by %s: base has fewer than %d",
                        assumed.text, STATS_MIN_RECORDINGS);
}

static err_t print_head(view_t *v)
{
    const comparison_t *c = v->comparison;
    fact_t facts[6];
    const char *title;
    int n = 0;
    TRY(arena_format(&v->arena, &title, "comparison of %s with %s", c->sides[0].name, c->sides[1].name));
    for (int side = 0; side < 2; side++) {
        const compare_side_t *s = &c->sides[side];
        const char *time = s->first;
        if (strcmp(s->first, s->last) != 0)
            TRY(arena_format(&v->arena, &time, "%s to %s", s->first, s->last));
        facts[n].name = compare_side_names[side];
        const char *recordings = "";
        if (s->n_recordings > 1)
            TRY(arena_format(&v->arena, &recordings, "%d recordings, ", s->n_recordings));
        TRY(arena_format(&v->arena, &facts[n++].text, "%s: %s%d run%s%s%s%s%s", s->name, recordings,
                         s->n_runs, s->n_runs == 1 ? "" : "s", time[0] ? ", " : "", time,
                         s->git[0] ? ", git " : "", s->git));
    }
    /* The machine of base. Differences of new are in the notes. */
    const report_run_t *run = metrics_next_complete(c->base->runs);
    if (run && !run->train && isfinite(run->ranks)) {
        const report_field_t *cpu = fields_find(run->hardware, "cpu");
        facts[n].name = "machine";
        TRY(arena_format(&v->arena, &facts[n++].text, "%s, ranks: %s, threads per rank: %s",
                         cpu && cpu->text ? cpu->text : "unknown CPU", figure_number(run->ranks).text,
                         figure_number(run->threads).text));
    }
    TRY(variation_text(v, &facts[n].text));
    if (facts[n].text[0]) facts[n++].name = "variation";
    facts[n].name = "rule";
    TRY(arena_format(
        &v->arena, &facts[n++].text,
        "a change counts if it is at least %.3g %%, q is at most %.3g and the interval excludes 0",
        100 * v->options->min_effect, v->options->alpha));
    facts[n].name = "finds";
    if (isfinite(c->detectable))
        TRY(arena_format(&v->arena, &facts[n++].text,
                         "a slowdown of %s in 95 of 100 comparisons (median over the metrics)",
                         c->detectable > INTERVAL_MAX_RATIO - 1 ? "beyond ×10"
                                                                : figure_percent(c->detectable).text));
    v->render->heading(v->out, title);
    v->render->facts(v->out, facts, n);
    return ERR_OK;
}

static err_t print_table(view_t *v)
{
    enum { COLUMNS = 8 };
    const comparison_t *c = v->comparison;
    table_t table = {.title = "medians and their changes",
                     .columns = {{"metric", true},
                                 {"base", false},
                                 {"new", false},
                                 {"change", false},
                                 {"interval", false},
                                 {"fastest", false},
                                 {"q", false},
                                 {"verdict", true}},
                     .n_columns = COLUMNS,
                     .n_rows = c->n_metrics};
    int n_interleaved = 0, n_fast = 0;
    for (const compare_metric_t *at = c->metrics; at; at = at->next)
        n_interleaved += at->interleaved, n_fast += at->by_fast;
    TRY(arena_format(&v->arena, &table.caption, "%.4g %% intervals; %s%s", 100 * (1 - v->options->alpha),
                     n_interleaved == 0              ? "not interleaved"
                     : n_interleaved == c->n_metrics ? "interleaved"
                                                     : "some interleaved",
                     n_fast == 0 ? "" : "; * by the fastest samples"));
    TRY(arena_new(&v->arena, sizeof *table.cells * COLUMNS * (size_t)c->n_metrics, &table.cells));
    const char **cell = table.cells;
    for (const compare_metric_t *at = c->metrics; at; at = at->next, cell += COLUMNS) {
        const stats_difference_t *d = &at->difference;
        cell[0] = at->label;
        TRY(arena_format(&v->arena, &cell[1], "%s", figure_time(d->base).text));
        TRY(arena_format(&v->arena, &cell[2], "%s", figure_time(d->now).text));
        TRY(change_text(v, d->ratio, &cell[3]));
        TRY(interval_text(&v->arena, d->low, d->high, &cell[4]));
        TRY(change_text(v, at->fast.ratio, &cell[5]));
        cell[6] = isfinite(at->q) ? "< 0.0001" : "-";
        if (at->q >= 0.0001) TRY(arena_format(&v->arena, &cell[6], "%.4f", at->q));
        TRY(arena_format(&v->arena, &cell[7], "%s%s", verdict_names[at->verdict], at->by_fast ? " *" : ""));
    }
    v->render->table(v->out, &table);
    return ERR_OK;
}

/* "backward +98 %, forward +2 %", largest first. */
static err_t parts_text(view_t *v, const compare_metric_t *metric, const char **out)
{
    bool *said;
    TRY(arena_new(&v->arena, (size_t)metric->n_parts * sizeof *said, &said));
    for (int i = 0; i < metric->n_parts; i++) said[i] = !isfinite(metric->parts[i].share);
    *out = "";
    for (;;) {
        int best = -1;
        for (int i = 0; i < metric->n_parts; i++)
            if (!said[i] && (best < 0 || metric->parts[i].share > metric->parts[best].share)) best = i;
        if (best < 0) return ERR_OK;
        double share = 100 * metric->parts[best].share;
        said[best] = true;
        TRY(arena_format(&v->arena, out, fabs(share) < 0.5 ? "%s%s%s %.0f %%" : "%s%s%s %+.0f %%", *out,
                         **out ? ", " : "", metrics_part_label(metric->parts[best].name),
                         fabs(share) < 0.5 ? 0.0 : share));
    }
}

static err_t print_sources(view_t *v)
{
    const comparison_t *c = v->comparison;
    fact_t *facts;
    int n = 0;
    TRY(arena_new(&v->arena, sizeof *facts * (size_t)c->n_metrics, &facts));
    for (const compare_metric_t *at = c->metrics; at; at = at->next) {
        const char *change, *parts;
        if (!at->attributed_to) continue;
        TRY(change_text(v, at->difference.ratio, &change));
        TRY(parts_text(v, at, &parts));
        facts[n].name = at->label;
        TRY(arena_format(&v->arena, &facts[n++].text, "%s, of which %s", change, parts));
    }
    if (n == 0) return ERR_OK;
    v->render->heading(v->out, "sources of the changes");
    v->render->facts(v->out, facts, n);
    return ERR_OK;
}

/* Each reason once, with the first metric it applies to. */
static err_t print_inconclusive(view_t *v)
{
    const comparison_t *c = v->comparison;
    fact_t *facts;
    int *times, n = 0;
    TRY(arena_new(&v->arena, sizeof *facts * (size_t)c->n_metrics, &facts));
    TRY(arena_new(&v->arena, sizeof *times * (size_t)c->n_metrics, &times));
    for (const compare_metric_t *at = c->metrics; at; at = at->next) {
        int i = 0;
        if (at->verdict != VERDICT_INCONCLUSIVE) continue;
        while (i < n && strcmp(facts[i].text, at->reason) != 0) i++;
        if (i == n) {
            facts[n] = (fact_t){at->label, at->reason};
            times[n++] = 0;
        }
        times[i]++;
    }
    for (int i = 0; i < n; i++)
        if (times[i] > 1)
            TRY(arena_format(&v->arena, &facts[i].name, "%s and %d more", facts[i].name, times[i] - 1));
    if (n == 0) return ERR_OK;
    v->render->heading(v->out, "inconclusive");
    v->render->facts(v->out, facts, n);
    return ERR_OK;
}

err_t compare_print(const comparison_t *comparison, const compare_options_t *options, const render_t *render,
                    FILE *out)
{
    static const verdict_t order[VERDICTS] = {VERDICT_WORSE, VERDICT_BETTER, VERDICT_SAME,
                                              VERDICT_INCONCLUSIVE};
    view_t view = {.comparison = comparison, .options = options, .render = render, .out = out};
    err_t err;
    TRY_OUT(err, print_head(&view));
    TRY_OUT(err, print_table(&view));
    TRY_OUT(err, print_sources(&view));
    TRY_OUT(err, print_inconclusive(&view));
    if (comparison->n_notes > 0) {
        render->heading(out, "notes");
        for (int i = 0; i < comparison->n_notes; i++) render->note(out, comparison->notes[i]);
        render->facts(out, NULL, 0);
    }
    const char *text = "", *change;
    for (int i = 0; i < VERDICTS; i++)
        TRY_OUT(err, arena_format(&view.arena, &text, "%s%s%d %s", text, i ? ", " : "",
                                  comparison->n_of[order[i]], verdict_names[order[i]]));
    const char *before = "; worse: ";
    for (const compare_metric_t *at = comparison->metrics; at; at = at->next) {
        if (at->verdict != VERDICT_WORSE) continue;
        TRY_OUT(err, change_text(&view, at->difference.ratio, &change));
        TRY_OUT(err, arena_format(&view.arena, &text, "%s%s%s %s%s%s", text, before, at->label, change,
                                  at->attributed_to ? " in " : "",
                                  at->attributed_to ? metrics_part_label(at->attributed_to->name) : ""));
        before = ", ";
    }
    if (!compare_decided(comparison))
        TRY_OUT(err, arena_format(&view.arena, &text, "%s: nothing was decided", text));
    render->note(out, text);
out:
    arena_free(&view.arena);
    return err;
}
