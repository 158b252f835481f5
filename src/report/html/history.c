/* SPDX-License-Identifier: MIT */
/* The history section: a small chart per metric over many recordings, with its change points. report/regress
 * finds them. */
#include <math.h>
#include <string.h>

#include "base/figure.h"
#include "report/html/parts.h"

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

/* The key fields that distinguish a metric from others of its test. */
static err_t key_words(html_t *h, const history_group_t *group, const history_metric_t *metric,
                       const char **out)
{
    const char **keys;
    int n = 0;
    TRY(arena_new(&h->arena, sizeof *keys * (size_t)(group->n_metrics + 1), &keys));
    for (const history_metric_t *other = group->metrics; other; other = other->next)
        if (strcmp(other->case_name, metric->case_name) == 0 && strcmp(other->test, metric->test) == 0)
            keys[n++] = other->key;
    return html_key_words(h, metric->key, keys, n, out);
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
    TRY(key_words(h, group, metric, &key));
    TRY(html_metric_name(h, metric->case_name, metric->test, key, &title));
    TRY(change_words(h, group, metric, &caption));
    html_figure(h, title);
    html_lines(h, &chart);
    html_figure_end(h, caption, NULL);
    return ERR_OK;
}

static err_t recordings_table(html_t *h, const history_group_t *group)
{
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
    return recordings_table(h, group);
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
