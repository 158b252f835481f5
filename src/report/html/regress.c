/* SPDX-License-Identifier: MIT */
/* The sections on what report/regress computes: verdicts, a row per metric with change and interval, shown as a card
 * on a phone; the history, a small chart per metric over many recordings, with its change points. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "report/html/panel.h"

enum { UNFOLDED = 12 }; /* up to this many metrics are all shown unfolded */

/* Within a verdict, the largest change comes first. */
static const verdict_t order[VERDICTS] = {VERDICT_WORSE, VERDICT_BETTER, VERDICT_INCONCLUSIVE, VERDICT_SAME};

static int rank_of(verdict_t verdict)
{
    int rank = 0;
    while (order[rank] != verdict) rank++;
    return rank;
}

static double size_of_change(const compare_metric_t *metric)
{
    double ratio = metric->difference.ratio;
    return ratio > 0 && isfinite(ratio) ? fabs(log(ratio)) : -1;
}

static int compare_rows(const void *a, const void *b)
{
    const compare_metric_t *x = *(const compare_metric_t *const *)a, *y = *(const compare_metric_t *const *)b;
    if (rank_of(x->verdict) != rank_of(y->verdict)) return rank_of(x->verdict) - rank_of(y->verdict);
    double more = size_of_change(y) - size_of_change(x);
    if (more > 0 || more < 0) return more > 0 ? 1 : -1;
    return strcmp(x->label, y->label);
}

static err_t print_rows(html_t *h, const chart_forest_t *forest, const compare_metric_t *const *rows,
                        const html_name_t *names, int first, int n)
{
    html_put(
        h, "<table class=\"verdicts\"><thead><tr><th scope=\"col\">metric</th><th scope=\"col\">verdict</th>"
           "<th scope=\"col\"><span class=\"ways\"><span>← faster</span><span>slower →</span></span>");
    chart_forest_axis(h->out, forest);
    html_put(
        h,
        "</th><th scope=\"col\">change of time (interval)</th><th scope=\"col\">base → new</th></tr></thead>\n"
        "<tbody>\n");
    for (int i = first; i < first + n; i++) {
        const stats_difference_t *d = &rows[i]->difference;
        const compare_part_t *part = rows[i]->attributed_to;
        /* The reason of an inconclusive metric, or the part that a change is attributed to. */
        const char *interval, *said = rows[i]->reason, *kind = verdict_names[rows[i]->verdict];
        html_put(h, "<tr><th scope=\"row\">%s",
                 html_metric_name(h, names, h->in->comparison->n_metrics, &names[i]));
        if (part && isfinite(part->share))
            said = html_format(h, "%s: %.0f %% of the change", metrics_part_label(part->name),
                               100 * part->share);
        else if (part)
            said = html_format(h, "mostly %s", metrics_part_label(part->name));
        if (rows[i]->by_fast) said = html_format(h, "%s%sof the fastest samples", said, said[0] ? "; " : "");
        if (said[0]) html_put(h, "<span class=\"said\">%s</span>", said);
        html_put(h, "</th><td><b class=\"tag %s\">%s</b></td><td>", kind, kind);
        chart_forest_row(h->out, forest, (chart_value_t){.y = d->ratio, .low = d->low, .high = d->high},
                         kind);
        TRY(interval_text(&h->arena, d->low, d->high, &interval));
        if (isfinite(d->ratio))
            html_put(h, "</td><td>%s (%s)</td>", figure_change(d->ratio - 1).text, interval);
        else
            html_put(h, "</td><td>-</td>");
        html_put(h, "<td>%s → %s</td></tr>\n", figure_time(d->base).text, figure_time(d->now).text);
    }
    html_put(h, "</tbody></table>\n");
    return ERR_OK;
}

err_t html_verdicts(html_t *h)
{
    const comparison_t *c = h->in->comparison;
    const compare_options_t *options = h->in->options;
    const compare_metric_t **rows;
    chart_forest_t forest;
    html_name_t *names;
    double *ratios;
    int n = 0, n_open = 0, n_ratios = 0;
    if (!c) {
        if (h->in->no_comparison) html_put(h, HTML_NOTE, h->in->no_comparison);
        return ERR_OK;
    }
    html_put(h, "<p class=\"summary\"><b class=\"tag big %s\">%s</b> <span>%d metric%s:</span>",
             verdict_names[c->verdict], verdict_names[c->verdict], c->n_metrics,
             c->n_metrics == 1 ? "" : "s");
    for (int i = 0; i < VERDICTS; i++)
        if (c->n_of[order[i]] > 0)
            html_put(h, " <b class=\"tag %s\">%d %s</b>", verdict_names[order[i]], c->n_of[order[i]],
                     verdict_names[order[i]]);
    html_put(h, compare_decided(c) ? "</p>\n" : " <span>Nothing was decided.</span></p>\n");
    const size_t n_most = (size_t)c->n_metrics + 1;
    TRY(arena_new(&h->arena, sizeof *rows * n_most, &rows));
    TRY(arena_new(&h->arena, sizeof *names * n_most, &names));
    TRY(arena_new(&h->arena, sizeof *ratios * 2 * n_most, &ratios));
    for (const compare_metric_t *at = c->metrics; at; at = at->next) rows[n++] = at;
    qsort(rows, (size_t)n, sizeof *rows, compare_rows);
    /* The axis is scaled to the intervals of conclusive metrics and the ratios of inconclusive ones, whose intervals
     * may be huge. */
    forest.band = 1 + options->min_effect;
    for (int i = 0; i < n; i++) {
        bool told = rows[i]->verdict != VERDICT_INCONCLUSIVE;
        ratios[n_ratios++] = told ? rows[i]->difference.low : rows[i]->difference.ratio;
        if (told) ratios[n_ratios++] = rows[i]->difference.high;
        names[i] = (html_name_t){rows[i]->case_name, rows[i]->test, html_format(h, ";%s;", rows[i]->key)};
    }
    forest.reach = chart_forest_reach(ratios, n_ratios, forest.band);
    while (n_open < n && (n <= UNFOLDED || rank_of(rows[n_open]->verdict) < rank_of(VERDICT_INCONCLUSIVE)))
        n_open++;
    html_put(
        h, HTML_CAPTION,
        html_format(
            h,
            "Time of new relative to base; right of the centre line is slower. Diamond: ratio; line: its %.4g "
            "%% confidence interval; arrow: the interval extends beyond the axis; shaded: changes below %.3g "
            "%%, which do not count. Where the machine was busy, the fastest samples are compared. The false discovery rate of the verdicts is at most %.3g %% (Benjamini and "
            "Hochberg). Same verdicts as dptrain report compare.",
            100 * (1 - options->alpha), 100 * options->min_effect, 100 * options->alpha));
    if (n_open > 0) TRY(print_rows(h, &forest, rows, names, 0, n_open));
    /* Folded, those of a verdict together: they are consecutive. */
    for (int first = n_open, end; first < n; first = end) {
        for (end = first; end < n && rows[end]->verdict == rows[first]->verdict;) end++;
        html_put(h, "<details><summary>%d %s</summary>\n", end - first, verdict_names[rows[first]->verdict]);
        TRY(print_rows(h, &forest, rows, names, first, end - first));
        html_put(h, "</details>\n");
    }
    if (c->n_notes > 0) html_put(h, "<ul class=\"notes\">\n");
    for (int i = 0; i < c->n_notes; i++) html_put(h, "<li>%s</li>\n", c->notes[i]);
    if (c->n_notes > 0) html_put(h, "</ul>\n");
    return ERR_OK;
}

enum { MOST_CHARTS = 24, MOST_MARKS = 8 }; /* per group; metrics with changes come first */

static const char *revision_text(const history_recording_t *recording)
{
    return recording->git[0] ? recording->git : "unknown revision";
}

static const char *change_words(html_t *h, const history_group_t *group, const history_metric_t *metric)
{
    const char *out = "";
    for (int i = 0; i < metric->n_changes && i < MOST_MARKS; i++) {
        const history_change_t *change = &metric->changes[i];
        out = html_format(h, "%s%s%s at recording %d (%s", out, i ? "; " : "",
                          figure_change(change->ratio - 1).text, change->after + 1,
                          revision_text(&group->recordings[change->after]));
        for (int d = 0; d < change->n_differences && d < 3; d++)
            out = html_format(h, "%s; %s %s → %s", out, change->differences[d].name,
                              change->differences[d].before, change->differences[d].after);
        out = html_format(h, "%s%s)", out, change->same_revision ? "; same revision as before" : "");
    }
    if (metric->n_changes > 0) return out;
    const history_drift_t *drift = metric->drift;
    if (drift)
        return html_format(h, "Drift: %s over %d recordings, no single date.",
                           figure_change(drift->to / drift->from - 1).text, drift->last - drift->first + 1);
    return metric->too_short
               ? "Too few recordings to detect a change."
               : html_format(h, "No change of %.2g %% or more.", 100 * h->in->history_min_effect);
}

/* The values of undisturbed and disturbed recordings, and the levels between changes as two points and a gap each. */
static err_t add_metric(html_t *h, const history_group_t *group, const history_metric_t *metric,
                        const html_name_t *names, const html_name_t *of)
{
    static const struct {
        double sec;
        const char *name;
    } units[] = {{1, "s"}, {1e-3, "ms"}, {1e-6, "us"}, {1e-9, "ns"}};
    html_panel_t panel = {.title = html_metric_name(h, names, group->n_metrics, of),
                          .caption = change_words(h, group, metric),
                          .lines = {.about = "Median time over the recordings, oldest first.",
                                    .x = {.title = "recording"},
                                    .reference = NAN,
                                    .height = 110}};
    chart_series_t *series;
    chart_value_t *at;
    chart_mark_t *marks;
    double most = 0;
    int unit = 0;
    TRY(arena_new(&h->arena, sizeof *series * 3, &series));
    TRY(arena_new(&h->arena, sizeof *marks * MOST_MARKS, &marks));
    TRY(arena_new(&h->arena, sizeof *at * (size_t)(metric->n_values + 3 * (metric->n_changes + 1)), &at));
    for (int i = 0; i < metric->n_values; i++) most = fmax(most, metric->values[i].sec);
    while (unit < 3 && most < units[unit].sec) unit++;
    const double sec = units[unit].sec;
    panel.lines.y.title = html_format(h, "%s, lower is better", units[unit].name);
    panel.lines.series = series;
    panel.lines.marks = marks;
    for (int disturbed = 0; disturbed < 2; disturbed++) {
        chart_series_t *line = &series[panel.lines.n_series];
        *line = (chart_series_t){.name = disturbed ? "disturbed machine" : NULL,
                                 .at = at,
                                 .markers = true,
                                 .no_line = disturbed,
                                 .is_base = disturbed};
        for (int i = 0; i < metric->n_values; i++) {
            const history_value_t *value = &metric->values[i];
            if (value->disturbed != disturbed) continue;
            at[line->n++] = (chart_value_t){
                value->recording + 1, value->sec / sec, value->low / sec, value->high / sec, 0, false};
        }
        at += line->n;
        panel.lines.n_series += line->n > 0;
    }
    if (metric->n_changes > 0)
        series[panel.lines.n_series++] =
            (chart_series_t){.style = 1, .n = 3 * (metric->n_changes + 1), .at = at, .is_base = true};
    if (metric->drift) {
        series[panel.lines.n_series++] = (chart_series_t){.style = 1, .n = 2, .at = at, .is_base = true};
        at[0] = chart_point(metric->drift->first + 1, metric->drift->from / sec);
        at[1] = chart_point(metric->drift->last + 1, metric->drift->to / sec);
        return html_panel_add(h, &panel);
    }
    for (int level = 0; level <= metric->n_changes; level++) {
        double y = metric->levels[level] / sec;
        double from = level > 0 ? metric->changes[level - 1].after + 0.5 : 1;
        double to = level < metric->n_changes ? metric->changes[level].after + 0.5 : group->n_recordings;
        *at++ = chart_point(from, y);
        *at++ = chart_point(to, y);
        *at++ = chart_point(NAN, NAN);
        if (level < metric->n_changes && level < MOST_MARKS)
            marks[panel.lines.n_marks++] =
                (chart_mark_t){to, revision_text(&group->recordings[metric->changes[level].after])};
    }
    return html_panel_add(h, &panel);
}

static err_t print_group(html_t *h, const history_group_t *group)
{
    static const table_column_t columns[] = {{"recording", .is_text = false}, {"time", .is_text = true},
                                             {"revision", .is_text = true},   {"starts", .is_text = false},
                                             {"complete", .is_text = true},   {"file", .is_text = true}};
    enum { COLUMNS = sizeof columns / sizeof *columns };
    html_name_t *names;
    int n = 0;
    html_put(h, HTML_CAPTION, group->name);
    TRY(arena_new(&h->arena, sizeof *names * (size_t)(group->n_metrics + 1), &names));
    for (const history_metric_t *metric = group->metrics; metric; metric = metric->next)
        names[n++] = (html_name_t){metric->case_name, metric->test, html_format(h, ";%s;", metric->key)};
    for (int changed = 1; changed >= 0; changed--) {
        int which = 0;
        for (const history_metric_t *metric = group->metrics; metric; metric = metric->next, which++)
            if ((metric->n_changes > 0 || metric->drift) == changed && h->n_panels < MOST_CHARTS)
                TRY(add_metric(h, group, metric, names, &names[which]));
    }
    html_panels_print(h);
    if (group->n_metrics > MOST_CHARTS)
        html_put(h, "<p class=\"note\">%d more metrics, %s; dptrain report history lists them.</p>\n",
                 group->n_metrics - MOST_CHARTS,
                 group->n_changed + group->n_drifting > MOST_CHARTS ? "some with changes"
                                                                    : "none with a change");
    html_put(h, "<details><summary>Recordings</summary>\n");
    html_table_begin(h, columns, COLUMNS);
    for (int i = 0; i < group->n_recordings; i++) {
        const history_recording_t *recording = &group->recordings[i];
        html_row(h, columns, COLUMNS,
                 (const char *const[]){html_format(h, "%d", i + 1), recording->time, revision_text(recording),
                                       html_format(h, "%d", recording->n_starts),
                                       recording->complete ? "yes" : "no", recording->file});
    }
    html_table_end(h);
    html_put(h, "</details>\n");
    return ERR_OK;
}

err_t html_history(html_t *h)
{
    const history_t *history = h->in->history;
    if (h->in->no_history && !history) html_put(h, HTML_NOTE, h->in->no_history);
    if (!history || !history->groups) return ERR_OK;
    html_put(
        h,
        "<p>Median time of each recording. Whiskers: fastest and slowest start. Dashed: levels, or a drift; a change "
        "point is marked with the first revision of the new level. Changes below %.2g %% do not count. The axes do not "
        "start at 0.</p>\n",
        100 * h->in->history_min_effect);
    for (int i = 0; i < history->n_notes; i++) html_put(h, HTML_NOTE, history->notes[i]);
    for (const history_group_t *group = history->groups; group; group = group->next)
        TRY(print_group(h, group));
    return ERR_OK;
}
