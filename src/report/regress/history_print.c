/* SPDX-License-Identifier: MIT */
/* Prints a history: the changes with the revisions on both sides, and a summary of each group.
 * history_series.c prints sparklines. */
#include "report/regress/history_print.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/figure.h"
#include "base/mem.h"
#include "report/regress/text.h"

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

/* In order of time. */
static err_t list_changes(history_printer_t *p, const history_group_t *group, row_t **rows, int *n_rows)
{
    int n = 0, order = 0;
    for (const history_metric_t *metric = group->metrics; metric; metric = metric->next)
        n += metric->n_changes;
    TRY(arena_new(&p->arena, sizeof **rows * (size_t)(n + 1), rows));
    *n_rows = n;
    n = 0;
    for (const history_metric_t *metric = group->metrics; metric; metric = metric->next, order++)
        for (int i = 0; i < metric->n_changes; i++)
            (*rows)[n++] = (row_t){&metric->changes[i], metric, order, i};
    qsort(*rows, (size_t)n, sizeof **rows, compare_rows);
    return ERR_OK;
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

static err_t difference_text(arena_t *arena, const history_difference_t *d, const char **out)
{
    const char *text[2];
    TRY(text_cut_pair(arena, d->before, d->after, text));
    return arena_format(arena, out, "%s → %s", text[0][0] ? text[0] : "not recorded",
                        text[1][0] ? text[1] : "not recorded");
}

static err_t cause_text(history_printer_t *p, const history_change_t *change,
                        const history_recording_t *before, const history_recording_t *after, const char **out)
{
    const char *revision = "different revision";
    if (!before->git[0] || !after->git[0])
        revision = "the revision is unknown";
    else if (before->git == after->git)
        revision =
            change->same_revision ? "same revision" : "same revision with uncommitted changes (-dirty)";
    *out = "no change in the software: check the machine";
    if (change->same_revision && change->n_differences == 0) return ERR_OK;
    return arena_format(&p->arena, out, "%s; %s", revision,
                        change->n_differences ? "also changed:" : "no other change");
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
    TRY(cause_text(p, change, before, after, &facts[0].text));
    for (int i = 0; i < change->n_differences; i++) {
        const history_difference_t *d = &change->differences[i];
        facts[i + 1].name = d->name;
        TRY(difference_text(&p->arena, d, &facts[i + 1].text));
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

static err_t print_changes(history_printer_t *p, const history_group_t *group)
{
    row_t *rows;
    int n;
    TRY(list_changes(p, group, &rows, &n));
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

static err_t recordings_text(history_printer_t *p, const history_group_t *group, const char **out)
{
    const history_recording_t *first = &group->recordings[0], *last = first + group->n_recordings - 1;
    TRY(arena_format(&p->arena, out, "%d (starts: %d), %s to %s, %.1f days", group->n_recordings,
                     group->n_starts, minute_text(first->time).text, minute_text(last->time).text,
                     group->days));
    return ERR_OK;
}

/* Cuts the text to the width of a line. */
static err_t add_fact(history_printer_t *p, const char *name, const char *text, fact_t *fact)
{
    fact->name = name;
    return text_cut(&p->arena, text, HISTORY_WIDTH - 16, &fact->text);
}

static err_t print_head(history_printer_t *p, const history_group_t *group)
{
    fact_t facts[5];
    int n = 0, n_interrupted = group->n_recordings - group->n_complete;
    const char *text;
    p->render->heading(p->out, "History");
    TRY(recordings_text(p, group, &text));
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
    return ERR_OK;
}

static err_t put_note(history_printer_t *p, const char *text)
{
    p->render->note(p->out, text);
    return ERR_OK;
}

static err_t print_sum(history_printer_t *p, const history_group_t *group)
{
    const char *text;
    TRY(arena_format(
        &p->arena, &text, "Metrics: %d; with a change: %d, without: %d, in %d recordings over %.1f days.",
        group->n_metrics, group->n_changed, group->n_metrics - group->n_changed - group->n_too_short,
        group->n_complete, group->days));
    TRY(put_note(p, text));
    if (group->n_too_short == 0) return ERR_OK;
    TRY(arena_format(
        &p->arena, &text,
        "Metrics with too few recordings: %d; a change point needs %d undisturbed values, %d on each side.",
        group->n_too_short, HISTORY_MIN_VALUES, STATS_CHANGE_MIN_LENGTH));
    return put_note(p, text);
}

static err_t print_group(history_printer_t *p, const history_group_t *group)
{
    TRY(print_head(p, group));
    TRY(print_changes(p, group));
    if (group->n_metrics > 0) TRY(history_print_metrics(p, group));
    TRY(print_sum(p, group));
    if (p->render == &render_text) fputc('\n', p->out);
    arena_reset(&p->arena);
    return ERR_OK;
}

static err_t print_left_out(history_printer_t *p)
{
    const char *text;
    int n_disturbed = 0, n_starts = 0;
    for (const history_group_t *group = p->history->groups; group; group = group->next) {
        n_disturbed += group->n_disturbed;
        n_starts += group->n_starts_left_out;
    }
    if (n_starts > 0) {
        TRY(arena_format(
            &p->arena, &text,
            "Left out: measurements of starts with a disturbed machine or a clock more than %.0f %% slower "
            "than usual: %d.",
            100 * COMPARE_CLOCK_SLACK, n_starts));
        TRY(put_note(p, text));
    }
    if (n_disturbed > 0) {
        TRY(arena_format(&p->arena, &text,
                         "Unused values, because all starts of the recording were disturbed: %d.",
                         n_disturbed));
        TRY(put_note(p, text));
    }
    if (p->history->n_interrupted > 0)
        TRY(put_note(p, "Interrupted recordings (a run did not finish) are counted but have no values."));
    for (int i = 0; i < p->history->n_notes; i++) TRY(put_note(p, p->history->notes[i]));
    return ERR_OK;
}

static err_t print_legend(history_printer_t *p)
{
    const char *text;
    TRY(arena_format(
        &p->arena, &text,
        "Changes below %.2g %% are not reported; of those shown, at most %.2g %% are expected to be false.",
        100 * p->options->min_effect, 100 * p->options->alpha));
    TRY(put_note(p, text));
    if (p->history->n_groups > 1)
        TRY(put_note(p, "Each combination of hardware, fabric, ranks and threads has its own history."));
    if (p->missing)
        TRY(put_note(p, "· no value: the metric was not measured, or the recording was interrupted."));
    if (p->disturbed) TRY(put_note(p, "! disturbed: other load disturbed every start."));
    return ERR_OK;
}

static err_t print_all(history_printer_t *p)
{
    for (const history_group_t *group = p->history->groups; group; group = group->next)
        TRY(print_group(p, group));
    TRY(print_left_out(p));
    return print_legend(p);
}

err_t history_print(const history_t *history, const history_options_t *options, const render_t *render,
                    FILE *out)
{
    history_printer_t printer = {.history = history, .options = options, .render = render, .out = out};
    err_t err = print_all(&printer);
    arena_free(&printer.arena);
    return err;
}
