/* SPDX-License-Identifier: MIT */
/* The sections on what report/regress computes: verdicts, a row per metric with change and interval, shown as a card
 * on a phone; the history, a small chart per metric over many recordings, with its change points. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/figure.h"
#include "base/mem.h"
#include "report/html/parts.h"
#include "report/regress/compare.h"

enum { UNFOLDED = 12 }; /* up to this many metrics are all shown unfolded */

bool html_has_verdicts(const html_t *h)
{
    return h->in->comparison || h->in->no_comparison;
}

/* Order of the verdicts. Within a verdict, the largest change comes first. */
static int rank_of(verdict_t verdict)
{
    static const int ranks[VERDICTS] = {
        [VERDICT_WORSE] = 0, [VERDICT_BETTER] = 1, [VERDICT_INCONCLUSIVE] = 2, [VERDICT_SAME] = 3};
    return ranks[verdict];
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

static err_t print_row(html_t *h, const chart_forest_t *forest, const compare_metric_t *metric)
{
    const char *name, *change, *times, *said, *kind = verdict_names[metric->verdict];
    const stats_difference_t *d = &metric->difference;
    const compare_part_t *part = metric->attributed_to;
    const char **keys, *words, *interval;
    int n = 0;
    TRY(arena_new(&h->arena, sizeof *keys * (size_t)(h->in->comparison->n_metrics + 1), &keys));
    for (const compare_metric_t *other = h->in->comparison->metrics; other; other = other->next)
        if (strcmp(other->case_name, metric->case_name) == 0 && strcmp(other->test, metric->test) == 0)
            keys[n++] = other->key;
    TRY(html_key_words(h, metric->key, keys, n, &words));
    TRY(html_metric_name(h, metric->case_name, metric->test, words, &name));
    change = "-";
    if (isfinite(d->ratio)) {
        TRY(interval_text(&h->arena, d->low, d->high, &interval));
        TRY(arena_format(&h->arena, &change, "%s (%s)", figure_change(d->ratio - 1).text, interval));
    }
    TRY(arena_format(&h->arena, &times, "%s → %s", figure_time(d->base).text, figure_time(d->now).text));
    /* The reason of an inconclusive metric, or the part that a change is attributed to. */
    said = metric->reason;
    if (part && isfinite(part->share))
        TRY(arena_format(&h->arena, &said, "%s: %.0f %% of the change", metrics_part_label(part->name),
                         100 * part->share));
    else if (part)
        TRY(arena_format(&h->arena, &said, "mostly %s", metrics_part_label(part->name)));
    fputs("<tr><th scope=\"row\">", h->out);
    html_text(h, name);
    if (said[0]) {
        fputs("<span class=\"said\">", h->out);
        html_text(h, said);
        fputs("</span>", h->out);
    }
    fprintf(h->out, "</th><td><b class=\"tag %s\">%s</b></td><td>", kind, kind);
    chart_forest_row(h->out, forest, d->ratio, d->low, d->high, kind, NULL);
    fputs("</td><td>", h->out);
    html_text(h, change);
    fputs("</td><td>", h->out);
    html_text(h, times);
    fputs("</td></tr>\n", h->out);
    return ERR_OK;
}

static err_t print_rows(html_t *h, const chart_forest_t *forest, const compare_metric_t *const *rows, int n)
{
    fputs("<table class=\"verdicts\"><thead><tr><th scope=\"col\">metric</th><th scope=\"col\">verdict</th>"
          "<th scope=\"col\"><span class=\"ways\"><span>← faster</span><span>slower →</span></span>",
          h->out);
    chart_forest_axis(h->out, forest);
    fputs("</th><th scope=\"col\">change of time (interval)</th><th scope=\"col\">base → "
          "new</th></tr></thead>\n"
          "<tbody>\n",
          h->out);
    for (int i = 0; i < n; i++) TRY(print_row(h, forest, rows[i]));
    fputs("</tbody></table>\n", h->out);
    return ERR_OK;
}

/* The metrics with a verdict, which are consecutive. */
static err_t print_folded(html_t *h, const chart_forest_t *forest, verdict_t verdict,
                          const compare_metric_t *const *rows, int n)
{
    int first = 0, n_of = 0;
    while (first < n && rows[first]->verdict != verdict) first++;
    while (first + n_of < n && rows[first + n_of]->verdict == verdict) n_of++;
    if (n_of == 0) return ERR_OK;
    fprintf(h->out, "<details><summary>%d %s</summary>\n", n_of, verdict_names[verdict]);
    TRY(print_rows(h, forest, rows + first, n_of));
    fputs("</details>\n", h->out);
    return ERR_OK;
}

err_t html_verdicts(html_t *h)
{
    static const verdict_t order[] = {VERDICT_WORSE, VERDICT_BETTER, VERDICT_INCONCLUSIVE, VERDICT_SAME};
    const comparison_t *c = h->in->comparison;
    const compare_options_t *options = h->in->options;
    const compare_metric_t **rows;
    chart_forest_t forest;
    double *ratios;
    const char *text;
    int n = 0, n_open = 0, n_ratios = 0;
    html_section(h, "verdict", "Verdict", NULL);
    if (!c) {
        html_note(h, h->in->no_comparison);
        html_section_end(h);
        return ERR_OK;
    }
    fprintf(h->out, "<p class=\"summary\"><b class=\"tag big %s\">%s</b> ", verdict_names[c->verdict],
            verdict_names[c->verdict]);
    fprintf(h->out, "<span>%d metric%s:</span>", c->n_metrics, c->n_metrics == 1 ? "" : "s");
    for (int i = 0; i < VERDICTS; i++)
        if (c->n_of[order[i]] > 0)
            fprintf(h->out, " <b class=\"tag %s\">%d %s</b>", verdict_names[order[i]], c->n_of[order[i]],
                    verdict_names[order[i]]);
    if (!compare_decided(c)) fputs(" <span>Nothing was decided.</span>", h->out);
    fputs("</p>\n", h->out);
    TRY(arena_new(&h->arena, sizeof *rows * (size_t)(c->n_metrics + 1), &rows));
    for (const compare_metric_t *at = c->metrics; at; at = at->next) rows[n++] = at;
    qsort(rows, (size_t)n, sizeof *rows, compare_rows);
    /* The axis is scaled to the intervals of conclusive metrics and the ratios of inconclusive ones, whose intervals
     * may be huge. */
    forest.band = 1 + options->min_effect;
    TRY(arena_new(&h->arena, sizeof *ratios * (size_t)(2 * n + 1), &ratios));
    for (int i = 0; i < n; i++) {
        bool told = rows[i]->verdict != VERDICT_INCONCLUSIVE;
        ratios[n_ratios++] = told ? rows[i]->difference.low : rows[i]->difference.ratio;
        if (told) ratios[n_ratios++] = rows[i]->difference.high;
    }
    forest.reach = chart_forest_reach(ratios, n_ratios, forest.band);
    while (n_open < n && (n <= UNFOLDED || rank_of(rows[n_open]->verdict) < rank_of(VERDICT_INCONCLUSIVE)))
        n_open++;
    TRY(arena_format(
        &h->arena, &text,
        "Time of new relative to base; right of the centre line is slower. Diamond: ratio; line: its %.4g "
        "%% confidence interval; arrow: the interval extends beyond the axis; shaded: changes below %.3g "
        "%%, which do not count. The false discovery rate of the verdicts is at most %.3g %% (Benjamini and "
        "Hochberg). Same verdicts as dptrain report compare.",
        100 * (1 - options->alpha), 100 * options->min_effect, 100 * options->alpha));
    fputs("<p class=\"caption\">", h->out);
    html_text(h, text);
    fputs("</p>\n", h->out);
    if (n_open > 0) TRY(print_rows(h, &forest, rows, n_open));
    TRY(print_folded(h, &forest, VERDICT_INCONCLUSIVE, rows + n_open, n - n_open));
    TRY(print_folded(h, &forest, VERDICT_SAME, rows + n_open, n - n_open));
    if (c->n_notes > 0) {
        fputs("<ul class=\"notes\">\n", h->out);
        for (int i = 0; i < c->n_notes; i++) {
            fputs("<li>", h->out);
            html_text(h, c->notes[i]);
            fputs("</li>\n", h->out);
        }
        fputs("</ul>\n", h->out);
    }
    html_section_end(h);
    return ERR_OK;
}

enum { MOST_CHARTS = 24, MOST_MARKS = 8 }; /* per group; metrics with changes come first */

bool html_has_history(const html_t *h)
{
    return h->in->no_history || (h->in->history && h->in->history->groups);
}

static const char *revision_text(const history_recording_t *recording)
{
    return recording->git[0] ? recording->git : "unknown revision";
}

/* The unit of a metric's chart. */
typedef struct unit {
    double sec;
    const char *name;
} unit_t;

static unit_t unit_of(const history_metric_t *metric)
{
    static const unit_t units[] = {{1, "s"}, {1e-3, "ms"}, {1e-6, "us"}, {1e-9, "ns"}};
    double most = 0;
    for (int i = 0; i < metric->n_values; i++) most = fmax(most, metric->values[i].sec);
    for (int i = 0; i < 3; i++)
        if (most >= units[i].sec) return units[i];
    return units[3];
}

/* The levels as a series: two points and a gap each. */
static err_t level_series(html_t *h, const history_metric_t *metric, int n, unit_t unit, chart_series_t *out)
{
    double *x, *y;
    int at = 0;
    TRY(arena_new(&h->arena, sizeof *x * (size_t)(3 * (metric->n_changes + 1)), &x));
    TRY(arena_new(&h->arena, sizeof *y * (size_t)(3 * (metric->n_changes + 1)), &y));
    for (int level = 0; level <= metric->n_changes; level++) {
        x[at] = level > 0 ? metric->changes[level - 1].after + 0.5 : 1;
        y[at++] = metric->levels[level] / unit.sec;
        x[at] = level < metric->n_changes ? metric->changes[level].after + 0.5 : n;
        y[at] = y[at - 1];
        at++;
        x[at] = NAN;
        y[at++] = NAN;
    }
    *out = (chart_series_t){.style = 1, .n = at, .x = x, .y = y, .is_base = true};
    return ERR_OK;
}

static err_t value_series(html_t *h, const history_metric_t *metric, bool disturbed, unit_t unit,
                          chart_series_t *out)
{
    double *columns[4];
    int n = 0;
    for (int c = 0; c < 4; c++)
        TRY(arena_new(&h->arena, sizeof(double) * (size_t)(metric->n_values + 1), &columns[c]));
    for (int i = 0; i < metric->n_values; i++) {
        const history_value_t *value = &metric->values[i];
        if (value->disturbed != disturbed) continue;
        columns[0][n] = value->recording + 1;
        columns[1][n] = value->sec / unit.sec;
        columns[2][n] = value->low / unit.sec;
        columns[3][n++] = value->high / unit.sec;
    }
    *out = (chart_series_t){.name = disturbed ? "disturbed machine" : NULL,
                            .n = n,
                            .x = columns[0],
                            .y = columns[1],
                            .low = columns[2],
                            .high = columns[3],
                            .markers = true,
                            .no_line = disturbed,
                            .is_base = disturbed};
    return ERR_OK;
}

static err_t change_words(html_t *h, const history_group_t *group, const history_metric_t *metric,
                          const char **out)
{
    *out = "";
    for (int i = 0; i < metric->n_changes && i < MOST_MARKS; i++) {
        const history_change_t *change = &metric->changes[i];
        TRY(arena_format(&h->arena, out, "%s%s%s at recording %d (%s", *out, i ? "; " : "",
                         figure_change(change->ratio - 1).text, change->after + 1,
                         revision_text(&group->recordings[change->after])));
        for (int d = 0; d < change->n_differences && d < 3; d++)
            TRY(arena_format(&h->arena, out, "%s; %s %s → %s", *out, change->differences[d].name,
                             change->differences[d].before, change->differences[d].after));
        if (change->same_revision) TRY(arena_format(&h->arena, out, "%s; same revision as before", *out));
        TRY(arena_format(&h->arena, out, "%s)", *out));
    }
    if (metric->n_changes == 0)
        *out = metric->too_short ? "Too few recordings to detect a change." : "No change.";
    return ERR_OK;
}

static err_t draw_metric(html_t *h, const history_group_t *group, const history_metric_t *metric)
{
    chart_series_t series[3];
    chart_mark_t marks[MOST_MARKS];
    const char *key, *title, *caption;
    unit_t unit = unit_of(metric);
    chart_lines_t chart = {.about = "Median time over the recordings, oldest first.",
                           .x = {.title = "recording"},
                           .series = series,
                           .marks = marks,
                           .reference = NAN,
                           .height = 110};
    TRY(arena_format(&h->arena, &chart.y.title, "%s, lower is better", unit.name));
    for (int disturbed = 0; disturbed < 2; disturbed++) {
        TRY(value_series(h, metric, disturbed, unit, &series[chart.n_series]));
        chart.n_series += series[chart.n_series].n > 0;
    }
    if (metric->n_changes > 0)
        TRY(level_series(h, metric, group->n_recordings, unit, &series[chart.n_series++]));
    for (int i = 0; i < metric->n_changes && i < MOST_MARKS; i++)
        marks[chart.n_marks++] = (chart_mark_t){metric->changes[i].after + 0.5,
                                                revision_text(&group->recordings[metric->changes[i].after])};
    /* The key fields that distinguish a metric from others of its test. */
    const char **keys;
    int n = 0;
    TRY(arena_new(&h->arena, sizeof *keys * (size_t)(group->n_metrics + 1), &keys));
    for (const history_metric_t *other = group->metrics; other; other = other->next)
        if (strcmp(other->case_name, metric->case_name) == 0 && strcmp(other->test, metric->test) == 0)
            keys[n++] = other->key;
    TRY(html_key_words(h, metric->key, keys, n, &key));
    TRY(html_metric_name(h, metric->case_name, metric->test, key, &title));
    TRY(change_words(h, group, metric, &caption));
    html_figure(h, title);
    html_lines(h, &chart);
    html_figure_end(h, caption, NULL);
    return ERR_OK;
}

static int n_shown(const history_group_t *group)
{
    return group->n_metrics < MOST_CHARTS ? group->n_metrics : MOST_CHARTS;
}

static err_t draw_metrics(html_t *h, const void *context)
{
    const history_group_t *group = context;
    int n = 0;
    for (int pass = 0; pass < 2; pass++)
        for (const history_metric_t *metric = group->metrics; metric; metric = metric->next) {
            if ((metric->n_changes > 0) != (pass == 0) || n == n_shown(group)) continue;
            TRY(draw_metric(h, group, metric));
            n++;
        }
    return ERR_OK;
}

static err_t draw_group(html_t *h, const history_group_t *group)
{
    int n = n_shown(group);
    const char *text;
    fputs("<p class=\"caption\">", h->out);
    html_text(h, group->name);
    fputs("</p>\n", h->out);
    TRY(html_figures(h, draw_metrics, group));
    if (group->n_metrics > n) {
        TRY(arena_format(&h->arena, &text, "%d more metrics, %s; dptrain report history lists them.",
                         group->n_metrics - n,
                         group->n_changed > n ? "some with changes" : "none with a change"));
        html_note(h, text);
    }
    enum { COLUMNS = 6 };
    table_t table = {.columns = {{"recording", false},
                                 {"time", true},
                                 {"revision", true},
                                 {"starts", false},
                                 {"complete", true},
                                 {"file", true}},
                     .n_columns = COLUMNS,
                     .n_rows = group->n_recordings};
    TRY(arena_new(&h->arena, sizeof *table.cells * (size_t)table.n_rows * COLUMNS, &table.cells));
    const char **cell = table.cells;
    for (int i = 0; i < group->n_recordings; i++) {
        const history_recording_t *recording = &group->recordings[i];
        TRY(arena_format(&h->arena, cell++, "%d", i + 1));
        *cell++ = recording->time;
        *cell++ = revision_text(recording);
        TRY(arena_format(&h->arena, cell++, "%d", recording->n_starts));
        *cell++ = recording->complete ? "yes" : "no";
        *cell++ = recording->file;
    }
    html_folded(h, "Recordings", &table);
    return ERR_OK;
}

err_t html_history(html_t *h)
{
    const history_t *history = h->in->history;
    if (!history) {
        html_section(h, "history", "History", NULL);
        html_note(h, h->in->no_history);
        html_section_end(h);
        return ERR_OK;
    }
    html_section(h, "history", "History",
                 "Median time of each recording. Whiskers: fastest and slowest start. Dashed: levels; a "
                 "change point is marked with the first revision of the new level. The axes do not start at "
                 "0.");
    for (int i = 0; i < history->n_notes; i++) html_note(h, history->notes[i]);
    for (const history_group_t *group = history->groups; group; group = group->next)
        TRY(draw_group(h, group));
    html_section_end(h);
    return ERR_OK;
}
