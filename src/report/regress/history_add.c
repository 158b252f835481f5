/* SPDX-License-Identifier: MIT */
/* Reduces each file to a few values per point, so that hundreds of recordings fit in memory. history_finish.c
 * sorts and groups them. */
#include <math.h>
#include <string.h>
#include <time.h>

#include "base/mem.h"
#include "base/stats.h"
#include "report/records/fields.h"
#include "report/records/metrics.h"
#include "report/records/print.h"
#include "report/regress/history_build.h"

void history_count_left_out(history_build_t *build, int reason, int64_t n, const char *file)
{
    history_left_t *left = &build->left[reason];
    if (n <= 0) return;
    left->n += n;
    if (!left->file || strcmp(file, left->file) < 0) left->file = file;
}

static err_t copy_fields(history_t *history, const report_fields_t *from, report_fields_t *out)
{
    report_field_t *fields = NULL;
    TRY(arena_new(&history->arena, (size_t)(from->n + 1) * sizeof *fields, &fields));
    for (int i = 0; i < from->n; i++) {
        fields[i] = from->at[i];
        TRY(intern_text(&history->words, from->at[i].name, &fields[i].name));
        TRY(intern_text(&history->words, from->at[i].text ? from->at[i].text : "", &fields[i].text));
    }
    *out = (report_fields_t){fields, from->n};
    return ERR_OK;
}

/* "1a2b: cpu X, cpus 2" */
static err_t describe_machine(history_t *history, const char *id, const report_fields_t *fields,
                              const char **out)
{
    printer_t printer = {0};
    const char *text;
    err_t err = print_fields_text(&printer, fields, &text);
    if (err == ERR_OK)
        err = arena_format(&printer.arena, &text, "%s%s%s", id, id[0] && text[0] ? ": " : "", text);
    if (err == ERR_OK) err = intern_text(&history->words, text, out);
    arena_free(&printer.arena);
    return err;
}

static err_t start_draft(history_t *history, history_draft_t *draft, const report_run_t *run,
                         const char *file)
{
    size_t n = strlen(file), tail = strlen(".partial.jsonl");
    history_recording_t *recording = &draft->recording;
    *recording = (history_recording_t){.file = file};
    recording->complete = n < tail || strcmp(file + n - tail, ".partial.jsonl") != 0;
    TRY(copy_fields(history, &run->software, &recording->software));
    const report_field_t *git = fields_find(recording->software, "git");
    /* "unknown": built outside a repository. */
    recording->git = git && strcmp(git->text, "unknown") != 0 ? git->text : "";
    TRY(intern_text(&history->words, run->time, &recording->time));
    TRY(intern_text(&history->words, run->hardware_id, &draft->hardware_id));
    TRY(intern_text(&history->words, run->fabric_id, &draft->fabric_id));
    draft->file = history->build->n_files;
    draft->ranks = run->ranks;
    draft->threads = run->threads;
    TRY(describe_machine(history, run->hardware_id, &run->hardware, &draft->hardware));
    return describe_machine(history, run->fabric_id, &run->fabric, &draft->fabric);
}

/* The draft of the run's machine. The drafts of this file start at `first`. */
static err_t find_or_add_draft(history_t *history, int first, const report_run_t *run, const char *file,
                               history_draft_t **out)
{
    history_build_t *build = history->build;
    for (int i = first; i < build->n_drafts; i++) {
        if (!history_draft_is_of(&build->drafts[i], run->hardware_id, run->fabric_id, run->ranks,
                                 run->threads))
            continue;
        *out = &build->drafts[i];
        return ERR_OK;
    }
    TRY(mem_grow(build->n_drafts + 1, sizeof *build->drafts, "a history", &build->drafts));
    *out = &build->drafts[build->n_drafts++];
    return start_draft(history, *out, run, file);
}

double history_seconds(const char *time)
{
    struct tm tm = {0};
    const char *end = strptime(time, "%Y-%m-%dT%H:%M:%SZ", &tm);
    return end && *end == '\0' && end - time == 20 ? (double)timegm(&tm) : NAN;
}

static bool has_time(const report_run_t *run)
{
    return !isnan(history_seconds(run->time));
}

static err_t add_run(history_t *history, int first, const report_run_t *run, const char *file)
{
    history_build_t *build = history->build;
    history_draft_t *draft;
    if (run->train || run->line == 0 || !has_time(run)) {
        int reason = run->train ? LEFT_TRAIN : run->line == 0 ? LEFT_HEADLESS : LEFT_TIMELESS;
        history_count_left_out(build, reason, 1, file);
        return ERR_OK;
    }
    TRY(find_or_add_draft(history, first, run, file, &draft));
    history_recording_t *recording = &draft->recording;
    if (strcmp(run->time, recording->time) < 0)
        TRY(intern_text(&history->words, run->time, &recording->time));
    if (metrics_incomplete(run)) recording->complete = false;
    TRY(mem_grow(recording->n_starts + 1, sizeof *draft->ids, "a history", &draft->ids));
    return intern_text(&history->words, run->id, &draft->ids[recording->n_starts++]);
}

/* Labels are unique within a recording only. Keeps the longest, which does not depend on the order of files.
 */
static err_t keep_longer_label(history_t *history, const char *label, history_name_t *name)
{
    size_t n = strlen(label), n_now = name->label ? strlen(name->label) : 0;
    if (name->label && (n < n_now || (n == n_now && strcmp(label, name->label) <= 0))) return ERR_OK;
    return intern_text(&history->words, label, &name->label);
}

/* Recordings usually have the same measurements in the same order, so the search starts after the last hit.
 */
static err_t find_or_add_name(history_t *history, const metric_t *metric, int *now)
{
    history_build_t *build = history->build;
    history_name_t like = {0};
    TRY(intern_text(&history->words, metric->case_name, &like.case_name));
    TRY(intern_text(&history->words, metric->test, &like.test));
    TRY(intern_text(&history->words, metric->key, &like.key));
    for (int i = 0; i < build->n_names; i++) {
        int at = (*now + 1 + i) % build->n_names;
        const history_name_t *name = &build->names[at];
        if (name->key != like.key || name->test != like.test || name->case_name != like.case_name) continue;
        *now = at;
        return keep_longer_label(history, metric->label, &build->names[at]);
    }
    TRY(mem_grow(build->n_names + 1, sizeof *build->names, "a history", &build->names));
    *now = build->n_names++;
    build->names[*now] = like;
    return keep_longer_label(history, metric->label, &build->names[*now]);
}

static err_t add_points(history_t *history, int first, const metrics_t *metrics)
{
    int name = -1;
    for (const metric_t *metric = metrics->first; metric; metric = metric->next) {
        if (metric->starts->run->train) continue;
        TRY(find_or_add_name(history, metric, &name));
        for (const metric_start_t *start = metric->starts; start; start = start->next) {
            history_draft_t *draft;
            if (!has_time(start->run)) continue;
            TRY(find_or_add_draft(history, first, start->run, "", &draft));
            TRY(mem_grow(draft->n_points + 1, sizeof *draft->points, "a history", &draft->points));
            draft->points[draft->n_points++] =
                (history_point_t){name, start->p50, start->clock_sec, start->disturbed};
        }
    }
    return ERR_OK;
}

static err_t median_clock(const history_draft_t *draft, history_point_t *point)
{
    double *clocks;
    int64_t n = 0;
    TRY(mem_new_array(draft->n_points, sizeof *clocks, "clocks", &clocks));
    for (int64_t i = 0; i < draft->n_points; i++)
        if (isfinite(draft->points[i].clock_sec)) clocks[n++] = draft->points[i].clock_sec;
    point->p50 = stats_median(clocks, n);
    mem_free(&clocks);
    return ERR_OK;
}

/* Adds the fixed loop as a metric: on a machine that stays slow, every other metric is only "disturbed". */
static err_t add_clocks(history_t *history, int first)
{
    const metric_t like = {.case_name = "machine", .test = "clock", .key = "", .label = "machine clock"};
    for (int i = first; i < history->build->n_drafts; i++) {
        history_draft_t *draft = &history->build->drafts[i];
        history_point_t point = {.name = -1, .clock_sec = NAN};
        TRY(median_clock(draft, &point));
        if (!(point.p50 > 0)) continue;
        TRY(find_or_add_name(history, &like, &point.name));
        TRY(mem_grow(draft->n_points + 1, sizeof *draft->points, "a history", &draft->points));
        draft->points[draft->n_points++] = point;
    }
    return ERR_OK;
}

err_t history_add(history_t *history, const report_t *report)
{
    const char *file = "";
    metrics_t metrics = {0};
    if (!history->build) TRY(mem_new(sizeof *history->build, "a history", &history->build));
    history_build_t *build = history->build;
    int first = build->n_drafts;
    build->n_files++;
    for (int i = 0; i < report->n_files; i++) {
        TRY(intern_text(&history->words, report->files[i].name, &file));
        history_count_left_out(build, LEFT_NEWER, report->files[i].newer.n, file);
        history_count_left_out(build, LEFT_LINES, report->files[i].bad.n, file);
    }
    for (const report_run_t *run = report->runs; run; run = run->next)
        TRY(add_run(history, first, run, file));
    err_t err = metrics_list(report, &metrics);
    if (err == ERR_OK) err = add_points(history, first, &metrics);
    if (err == ERR_OK && !report->only_case && !report->only_test) err = add_clocks(history, first);
    metrics_free(&metrics);
    return err;
}
