/* SPDX-License-Identifier: MIT */
/* Prints a history: as one JSON object, as CSV with a row per value, or the changes with the revisions on both sides,
 * a summary of each group, and sparklines of its metrics. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/stats.h"
#include "records/record.h"
#include "report/records/render.h"
#include "report/regress/history.h"
#include "report/regress/parts.h"
#include "text/figure.h"

enum { HISTORY_WIDTH = 110, HISTORY_SPARK_MAX = 30 };

typedef struct history_printer {
    const history_t *history;
    const history_options_t *options;
    const render_t *render;
    FILE *out;
    arena_t arena;           /* reset after each group */
    bool missing, disturbed; /* marks used */
} history_printer_t;

static void put_group(json_t *j, const history_group_t *group)
{
    json_object_begin(j, NULL);
    json_string(j, "hardware_id", group->hardware_id);
    json_string(j, "fabric_id", group->fabric_id);
    json_real(j, "ranks", group->ranks);
    json_real(j, "threads", group->threads);
    json_real(j, "days", group->days);
    json_array_begin(j, "recordings");
    for (int i = 0; i < group->n_recordings; i++) {
        const history_recording_t *recording = &group->recordings[i];
        json_object_begin(j, NULL);
        json_string(j, "file", recording->file);
        json_string(j, "time", recording->time);
        json_string(j, "git", recording->git[0] ? recording->git : NULL);
        json_int(j, "starts", recording->n_starts);
        json_bool(j, "complete", recording->complete);
        json_object_begin(j, "software");
        for (int f = 0; f < recording->software.n; f++)
            json_string(j, recording->software.at[f].name, recording->software.at[f].text);
        json_object_end(j);
        json_object_end(j);
    }
    json_array_end(j);
    json_array_begin(j, "metrics");
    for (const history_metric_t *metric = group->metrics; metric; metric = metric->next) {
        json_object_begin(j, NULL);
        json_string(j, "case", metric->case_name);
        json_string(j, "test", metric->test);
        json_string(j, "key", metric->key);
        json_string(j, "label", metric->label);
        json_bool(j, "too_short", metric->too_short);
        json_array_begin(j, "values");
        for (int i = 0; i < metric->n_values; i++) {
            const history_value_t *value = &metric->values[i];
            json_object_begin(j, NULL);
            json_int(j, "recording", value->recording);
            json_real(j, "sec", value->sec);
            json_real(j, "low_sec", value->low);
            json_real(j, "high_sec", value->high);
            json_int(j, "starts", value->n_starts);
            json_int(j, "starts_used", value->n_used);
            json_bool(j, "disturbed", value->disturbed);
            json_object_end(j);
        }
        json_array_end(j);
        json_array_begin(j, "levels_sec");
        for (int i = 0; i <= metric->n_changes; i++) json_real(j, NULL, metric->levels[i]);
        json_array_end(j);
        json_array_begin(j, "changes");
        for (int i = 0; i < metric->n_changes; i++) {
            const history_change_t *change = &metric->changes[i];
            json_object_begin(j, NULL);
            json_int(j, "before", change->before);
            json_int(j, "after", change->after);
            json_real(j, "ratio", change->ratio);
            json_real(j, "p", change->p);
            json_real(j, "q", change->q);
            json_bool(j, "same_revision", change->same_revision);
            json_object_begin(j, "software");
            for (int d = 0; d < change->n_differences; d++) {
                const history_difference_t *difference = &change->differences[d];
                json_array_begin(j, difference->name);
                json_string(j, NULL, difference->before[0] ? difference->before : NULL);
                json_string(j, NULL, difference->after[0] ? difference->after : NULL);
                json_array_end(j);
            }
            json_object_end(j);
            json_object_end(j);
        }
        json_array_end(j);
        if (metric->drift) {
            json_object_begin(j, "drift");
            json_int(j, "first", metric->drift->first);
            json_int(j, "last", metric->drift->last);
            json_real(j, "from_sec", metric->drift->from);
            json_real(j, "to_sec", metric->drift->to);
            json_real(j, "p", metric->drift->p);
            json_object_end(j);
        }
        json_object_end(j);
    }
    json_array_end(j);
    json_object_end(j);
}

err_t history_print_json(const history_t *history, const history_options_t *options, FILE *out)
{
    json_t j = {0};
    record_begin(&j, RECORD_HISTORY);
    json_int(&j, "schema", RECORD_SCHEMA);
    json_object_begin(&j, "options");
    json_real(&j, "min_effect", options->min_effect);
    json_real(&j, "alpha", options->alpha);
    json_int(&j, "last", options->last);
    json_object_end(&j);
    json_array_begin(&j, "groups");
    for (const history_group_t *group = history->groups; group; group = group->next) put_group(&j, group);
    json_array_end(&j);
    json_array_begin(&j, "notes");
    for (int i = 0; i < history->n_notes; i++) json_string(&j, NULL, history->notes[i]);
    json_array_end(&j);
    json_object_end(&j);
    err_t err = j.status;
    if (err == ERR_OK) fprintf(out, "%s\n", j.text);
    json_free(&j);
    return err;
}

static void put_fields(FILE *out, const char *const *fields, int n)
{
    for (int i = 0; i < n; i++) {
        if (i) fputc(',', out);
        csv_field(out, fields[i]);
    }
}

err_t history_print_csv(const history_t *history, FILE *out)
{
    fputs("hardware_id,fabric_id,ranks,threads,time,git,file,case,test,key,sec,low_sec,high_sec,starts,"
          "starts_used,disturbed,level_sec,change_ratio\r\n",
          out);
    for (const history_group_t *group = history->groups; group; group = group->next)
        for (const history_metric_t *metric = group->metrics; metric; metric = metric->next)
            for (int i = 0, level = 0; i < metric->n_values; i++) {
                while (level < metric->n_changes &&
                       metric->changes[level].after <= metric->values[i].recording)
                    level++;
                /* level: index of the level that the value belongs to. */
                const history_value_t *value = &metric->values[i];
                const history_recording_t *recording = &group->recordings[value->recording];
                const figure_t ranks = figure_exact(group->ranks), threads = figure_exact(group->threads);
                const char *const where[] = {group->hardware_id, group->fabric_id, ranks.text, threads.text};
                const char *const what[] = {recording->time,   recording->git, recording->file,
                                            metric->case_name, metric->test,   metric->key};
                put_fields(out, where, 4);
                fputc(',', out);
                put_fields(out, what, 6);
                fprintf(out, ",%s,%s", figure_exact(value->sec).text, figure_exact(value->low).text);
                fprintf(out, ",%s,%d,%d,%s", figure_exact(value->high).text, value->n_starts, value->n_used,
                        value->disturbed ? "yes" : "no");
                fprintf(out, ",%s", figure_exact(history_level(metric, value->recording)).text);
                bool changed = level > 0 && metric->changes[level - 1].after == value->recording;
                fprintf(out, ",%s\r\n", changed ? figure_exact(metric->changes[level - 1].ratio).text : "");
            }
    return ERR_OK;
}

/* Mean of the undisturbed values of recordings [from, to); NAN: none. *disturbed: there are disturbed ones.
 */
static double mean_of(const history_metric_t *metric, int from, int to, bool *disturbed)
{
    double sum = 0;
    int n = 0;
    *disturbed = false;
    for (int i = 0; i < metric->n_values; i++) {
        const history_value_t *value = &metric->values[i];
        if (value->recording < from || value->recording >= to) continue;
        *disturbed |= value->disturbed;
        n += !value->disturbed;
        sum += value->disturbed ? 0 : value->sec;
    }
    return n ? sum / n : NAN;
}

/* Oldest to newest; a block covers one or several consecutive recordings. */
static err_t sparkline_text(history_printer_t *p, const history_group_t *group,
                            const history_metric_t *metric, const char **out)
{
    static const char *const blocks[] = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
    int64_t n = group->n_recordings, width = n < HISTORY_SPARK_MAX ? n : HISTORY_SPARK_MAX;
    char text[HISTORY_SPARK_MAX * sizeof "█" + 1] = "";
    /* The range of the blocks: all values, and at least the minimum effect, so that noise looks flat. */
    double low = INFINITY, high = 0;
    for (int i = 0; i < metric->n_values; i++) {
        if (metric->values[i].disturbed) continue;
        low = fmin(low, metric->values[i].sec);
        high = fmax(high, metric->values[i].sec);
    }
    double middle = (low + high) / 2, half = (high - low) / 2;
    half = fmax(half, fmax(p->options->min_effect, 0.01) * middle);
    low = middle - half;
    high = middle + half;
    for (int64_t i = 0; i < width; i++) {
        bool disturbed;
        double mean = mean_of(metric, (int)(i * n / width), (int)((i + 1) * n / width), &disturbed);
        int at = isnan(mean) ? 0 : (int)((mean - low) / (high - low) * 8);
        p->missing |= isnan(mean) && !disturbed;
        p->disturbed |= isnan(mean) && disturbed;
        strcat(text, isnan(mean) ? (disturbed ? "!" : "·") : blocks[at > 7 ? 7 : at]);
    }
    return arena_text(&p->arena, text, strlen(text), out);
}

/* Prints each metric of a group: sparkline, current level, spread, change. */
static err_t history_print_metrics(history_printer_t *p, const history_group_t *group)
{
    enum { COLUMNS = 6, OTHERS = 44 }; /* OTHERS: width of the other columns and gaps */
    int n_blocks = group->n_recordings < HISTORY_SPARK_MAX ? group->n_recordings : HISTORY_SPARK_MAX;
    int heading = (int)strlen("oldest to newest");
    table_t table = {.title = "Metrics",
                     .caption =
                         "current level, spread between the starts of a recording, n undisturbed values",
                     .columns = {{"metric", true},
                                 {"oldest to newest", true},
                                 {"now", false},
                                 {"spread", false},
                                 {"n", false},
                                 {"change", false}},
                     .n_columns = COLUMNS,
                     .n_rows = group->n_metrics};
    size_t n_cells = (size_t)table.n_rows * COLUMNS;
    TRY(arena_new(&p->arena, sizeof *table.cells * (n_cells + 1), &table.cells));
    memset(table.cells, 0, sizeof *table.cells * n_cells);
    const char **cells = table.cells;
    int n_label = HISTORY_WIDTH - OTHERS - (n_blocks > heading ? n_blocks : heading);
    for (const history_metric_t *metric = group->metrics; metric; metric = metric->next, cells += COLUMNS) {
        const double *levels = metric->levels;
        TRY(text_cut(&p->arena, metric->label, n_label, &cells[0]));
        TRY(sparkline_text(p, group, metric, &cells[1]));
        const double now = metric->drift ? metric->drift->to : levels[metric->n_changes];
        TRY(arena_format(&p->arena, &cells[2], "%s", figure_time(now).text));
        /* Median over the recordings of maximum / minimum - 1 of their starts. */
        double *spread;
        int n = 0;
        TRY(arena_new(&p->arena, sizeof *spread * (size_t)(metric->n_values + 1), &spread));
        for (int i = 0; i < metric->n_values; i++)
            if (metric->values[i].n_used > 1 && !metric->values[i].disturbed)
                spread[n++] = metric->values[i].high / metric->values[i].low - 1;
        if (n > 0)
            TRY(arena_format(&p->arena, &cells[3], "%s", figure_percent(stats_median(spread, n)).text));
        TRY(arena_format(&p->arena, &cells[4], "%d", metric->n_values - metric->n_disturbed));
        if (metric->n_changes > 0)
            TRY(arena_format(&p->arena, &cells[5], "%s",
                             figure_change(levels[metric->n_changes] / levels[0] - 1).text));
        if (metric->drift)
            TRY(arena_format(&p->arena, &cells[5], "drift %s",
                             figure_change(metric->drift->to / metric->drift->from - 1).text));
    }
    p->render->table(p->out, &table);
    return ERR_OK;
}

/* A change and its metric. */
typedef struct row {
    const history_change_t *change;
    const history_metric_t *metric;
    int order, index; /* of the metric in the group; of the change in the metric */
} row_t;

static int compare_rows(const void *a, const void *b)
{
    const row_t *x = a, *y = b;
    if (x->change->after != y->change->after) return x->change->after - y->change->after;
    if (x->change->before != y->change->before) return x->change->before - y->change->before;
    return x->order != y->order ? x->order - y->order : x->index - y->index;
}

/* "2026-11-03 10:12". */
static figure_t minute_text(const char *time)
{
    figure_t out;
    snprintf(out.text, sizeof out.text, "%.10s %.5s", time, strlen(time) > 11 ? time + 11 : "");
    return out;
}

static err_t recording_text(history_printer_t *p, const history_recording_t *recording, const char **out)
{
    const char *git;
    TRY(text_cut(&p->arena, recording->git[0] ? recording->git : "unknown revision", 24, &git));
    return arena_format(&p->arena, out, "%s (%s)", minute_text(recording->time).text, git);
}

/* The recordings before and after the changes, and how their software differs. */
static err_t print_interval(history_printer_t *p, const history_group_t *group,
                            const history_change_t *change)
{
    const history_recording_t *before = &group->recordings[change->before],
                              *after = &group->recordings[change->after];
    const char *text, *from, *to;
    fact_t *facts;
    TRY(recording_text(p, before, &from));
    TRY(recording_text(p, after, &to));
    TRY(arena_format(&p->arena, &text, "Changed between %s and %s", from, to));
    p->render->heading(p->out, text);
    TRY(arena_new(&p->arena, sizeof *facts * (size_t)(change->n_differences + 1), &facts));
    facts[0].name = "software";
    const char *revision = "different revision";
    if (!before->git[0] || !after->git[0])
        revision = "the revision is unknown";
    else if (before->git == after->git)
        revision =
            change->same_revision ? "same revision" : "same revision with uncommitted changes (-dirty)";
    facts[0].text = "no change in the software: check the machine";
    if (!change->same_revision || change->n_differences > 0)
        TRY(arena_format(&p->arena, &facts[0].text, "%s; %s", revision,
                         change->n_differences ? "also changed:" : "no other change"));
    for (int i = 0; i < change->n_differences; i++) {
        const history_difference_t *d = &change->differences[i];
        const char *words[2];
        TRY(text_cut_pair(&p->arena, d->before, d->after, words));
        facts[i + 1].name = d->name;
        TRY(arena_format(&p->arena, &facts[i + 1].text, "%s → %s", words[0][0] ? words[0] : "not recorded",
                         words[1][0] ? words[1] : "not recorded"));
    }
    p->render->facts(p->out, facts, change->n_differences + 1);
    return ERR_OK;
}

static err_t print_rows(history_printer_t *p, const row_t *rows, int n)
{
    enum { COLUMNS = 5, N_LABEL = 54 };
    table_t table = {
        .title = "Metrics that changed",
        .caption = "levels before and after",
        .columns = {{"metric", true}, {"before", false}, {"after", false}, {"change", false}, {"p", false}},
        .n_columns = COLUMNS,
        .n_rows = n};
    TRY(arena_new(&p->arena, sizeof *table.cells * (size_t)n * COLUMNS, &table.cells));
    for (int i = 0; i < n; i++) {
        const char **cells = table.cells + (size_t)i * COLUMNS;
        const history_change_t *change = rows[i].change;
        const double *levels = rows[i].metric->levels + rows[i].index;
        TRY(text_cut(&p->arena, rows[i].metric->label, N_LABEL, &cells[0]));
        TRY(arena_format(&p->arena, &cells[1], "%s", figure_time(levels[0]).text));
        TRY(arena_format(&p->arena, &cells[2], "%s", figure_time(levels[1]).text));
        TRY(arena_format(&p->arena, &cells[3], "%s %s", figure_change(change->ratio - 1).text,
                         change->ratio > 1 ? "slower" : "faster"));
        TRY(arena_format(&p->arena, &cells[4], "%.2g", change->p));
    }
    p->render->table(p->out, &table);
    return ERR_OK;
}

/* In order of time; changes of the same interval together. */
static err_t print_intervals(history_printer_t *p, const history_group_t *group)
{
    row_t *rows;
    int n = 0, order = 0;
    for (const history_metric_t *metric = group->metrics; metric; metric = metric->next)
        n += metric->n_changes;
    TRY(arena_new(&p->arena, sizeof *rows * (size_t)(n + 1), &rows));
    n = 0;
    for (const history_metric_t *metric = group->metrics; metric; metric = metric->next, order++)
        for (int i = 0; i < metric->n_changes; i++)
            rows[n++] = (row_t){&metric->changes[i], metric, order, i};
    qsort(rows, (size_t)n, sizeof *rows, compare_rows);
    for (int i = 0, next; i < n; i = next) {
        for (next = i + 1; next < n; next++)
            if (rows[next].change->after != rows[i].change->after ||
                rows[next].change->before != rows[i].change->before)
                break;
        TRY(print_interval(p, group, rows[i].change));
        TRY(print_rows(p, rows + i, next - i));
    }
    return ERR_OK;
}

/* Trends without a date. */
static err_t print_drifts(history_printer_t *p, const history_group_t *group)
{
    fact_t *facts;
    int n = 0;
    if (group->n_drifting == 0) return ERR_OK;
    TRY(arena_new(&p->arena, sizeof *facts * (size_t)group->n_drifting, &facts));
    for (const history_metric_t *metric = group->metrics; metric; metric = metric->next) {
        const history_drift_t *drift = metric->drift;
        if (!drift) continue;
        facts[n].name = metric->label;
        TRY(arena_format(&p->arena, &facts[n++].text, "%s %s over %d recordings, no single date (p %.2g)",
                         figure_change(drift->to / drift->from - 1).text,
                         drift->to > drift->from ? "slower" : "faster", drift->last - drift->first + 1,
                         drift->p));
    }
    p->render->heading(p->out, "Drifts");
    p->render->facts(p->out, facts, n);
    return ERR_OK;
}

/* Cuts the text to the width of a line. */
static err_t add_fact(history_printer_t *p, const char *name, const char *text, fact_t *fact)
{
    fact->name = name;
    return text_cut(&p->arena, text, HISTORY_WIDTH - 16, &fact->text);
}

static void put_note(const history_printer_t *p, const char *text)
{
    p->render->note(p->out, text);
}

static err_t print_group(history_printer_t *p, const history_group_t *group)
{
    fact_t facts[5];
    int n = 0, n_interrupted = group->n_recordings - group->n_complete;
    const char *text;
    p->render->heading(p->out, "History");
    const history_recording_t *first = &group->recordings[0], *last = first + group->n_recordings - 1;
    TRY(arena_format(&p->arena, &text, "%d (starts: %d), %s to %s, %.1f days", group->n_recordings,
                     group->n_starts, minute_text(first->time).text, minute_text(last->time).text,
                     group->days));
    TRY(add_fact(p, "recordings", text, &facts[n++]));
    if (n_interrupted > 0) {
        const history_recording_t *at = &group->recordings[group->n_recordings - 1];
        while (at->complete) at--;
        TRY(arena_format(&p->arena, &text, "%d, the newest %s", n_interrupted, at->file));
        TRY(add_fact(p, "interrupted", text, &facts[n++]));
    }
    TRY(arena_format(&p->arena, &text, "%s, threads per rank: %s", figure_number(group->ranks).text,
                     figure_number(group->threads).text));
    TRY(add_fact(p, "ranks", text, &facts[n++]));
    TRY(add_fact(p, "hardware", group->hardware, &facts[n++]));
    TRY(add_fact(p, "fabric", group->fabric, &facts[n++]));
    p->render->facts(p->out, facts, n);
    TRY(print_intervals(p, group));
    TRY(print_drifts(p, group));
    if (group->n_metrics > 0) TRY(history_print_metrics(p, group));
    const char *drifting = "";
    if (group->n_drifting > 0)
        TRY(arena_format(&p->arena, &drifting, "with a drift: %d, ", group->n_drifting));
    TRY(arena_format(&p->arena, &text,
                     "Metrics: %d; with a change: %d, %swithout: %d, in %d recordings over %.1f days.",
                     group->n_metrics, group->n_changed, drifting,
                     group->n_metrics - group->n_changed - group->n_drifting - group->n_too_short,
                     group->n_complete, group->days));
    put_note(p, text);
    if (group->n_too_short > 0) {
        TRY(arena_format(
            &p->arena, &text,
            "Metrics with too few recordings: %d; a change point needs %d undisturbed values, %d on each side.",
            group->n_too_short, HISTORY_MIN_VALUES, STATS_CHANGE_MIN_LENGTH));
        put_note(p, text);
    }
    if (p->render == &render_text) fputc('\n', p->out);
    arena_reset(&p->arena);
    return ERR_OK;
}

err_t history_print(const history_t *history, const history_options_t *options, const render_t *render,
                    FILE *out)
{
    history_printer_t printer = {.history = history, .options = options, .render = render, .out = out};
    err_t err = ERR_OK;
    for (const history_group_t *group = history->groups; group; group = group->next)
        TRY_OUT(err, print_group(&printer, group));
    /* What was left out, and how to read the tables. */
    const char *text;
    int n_disturbed = 0, n_starts = 0;
    for (const history_group_t *group = history->groups; group; group = group->next) {
        n_disturbed += group->n_disturbed;
        n_starts += group->n_starts_left_out;
    }
    if (n_starts > 0) {
        TRY_OUT(
            err,
            arena_format(
                &printer.arena, &text,
                "Left out: measurements of starts with a disturbed machine or a clock more than %.0f %% slower "
                "than usual: %d.",
                100 * COMPARE_CLOCK_SLACK, n_starts));
        put_note(&printer, text);
    }
    if (n_disturbed > 0) {
        TRY_OUT(err, arena_format(&printer.arena, &text,
                                  "Unused values, because all starts of the recording were disturbed: %d.",
                                  n_disturbed));
        put_note(&printer, text);
    }
    if (history->n_interrupted > 0)
        put_note(&printer, "Interrupted recordings (a run did not finish) are counted but have no values.");
    for (int i = 0; i < history->n_notes; i++) put_note(&printer, history->notes[i]);
    TRY_OUT(
        err,
        arena_format(
            &printer.arena, &text,
            "Changes below %.2g %% are not reported; of those shown, at most %.2g %% are expected to be false.",
            100 * options->min_effect, 100 * options->alpha));
    put_note(&printer, text);
    if (history->n_groups > 1)
        put_note(&printer, "Each combination of hardware, fabric, ranks and threads has its own history.");
    if (printer.missing)
        put_note(&printer, "· no value: the metric was not measured, or the recording was interrupted.");
    if (printer.disturbed) put_note(&printer, "! disturbed: other load disturbed every start.");
out:
    arena_free(&printer.arena);
    return err;
}
