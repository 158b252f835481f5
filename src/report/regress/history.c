/* SPDX-License-Identifier: MIT */
/* Builds a history. Each file is reduced to a few values per point, so that hundreds of recordings fit in memory.
 * Then recordings are sorted by time, copies dropped, and groups made by hardware, fabric, ranks and threads; every
 * metric of a group is searched for change points (report/stats/stats.h), corrected for the number of tests. */
#include "report/regress/history.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/mem.h"
#include "base/stats.h"
#include "report/records/metrics.h"
#include "report/records/print.h"
#include "report/records/report.h"
#include "report/stats/stats.h"
#include "text/figure.h"

/* Identity of a metric in all recordings, interned by the history. */
typedef struct history_name {
    const char *case_name, *test, *key, *label;
} history_name_t;

/* One start's measurement. */
typedef struct history_point {
    int name;
    double p50, clock_sec; /* clock_sec NAN: not recorded */
    bool disturbed;
} history_point_t;

/* A recording: the runs of one file on one machine. */
typedef struct history_draft {
    history_recording_t recording;
    const char *hardware_id, *fabric_id;
    const char *hardware, *fabric; /* human-readable */
    double ranks, threads;
    const char **ids; /* [n_starts] run ids */
    history_point_t *points;
    int64_t n_points;
    int file; /* number of the file: names may repeat */
    bool is_copy;
} history_draft_t;

/* Reasons for leaving something out, with counts and the first file by name. */
enum { LEFT_TRAIN, LEFT_HEADLESS, LEFT_TIMELESS, LEFT_NEWER, LEFT_LINES, LEFT_COPY, LEFT_REASONS };
typedef struct history_left {
    int64_t n;
    const char *file;
} history_left_t;

typedef struct history_build {
    history_draft_t *drafts;
    int n_drafts, n_files;
    history_name_t *names;
    int n_names;
    history_left_t left[LEFT_REASONS];
} history_build_t;

static void history_count_left_out(history_build_t *build, int reason, int64_t n, const char *file)
{
    history_left_t *left = &build->left[reason];
    if (n <= 0) return;
    left->n += n;
    if (!left->file || strcmp(file, left->file) < 0) left->file = file;
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

static int compare_reals(double a, double b)
{
    if (isnan(a) || isnan(b)) return isnan(a) - isnan(b);
    return (a > b) - (a < b);
}

/* Whether a draft is of that machine and job. Numbers that are not recorded compare equal. */
static bool history_draft_is_of(const history_draft_t *draft, const char *hardware_id, const char *fabric_id,
                                double ranks, double threads)
{
    return strcmp(draft->hardware_id, hardware_id) == 0 && strcmp(draft->fabric_id, fabric_id) == 0 &&
           compare_reals(draft->ranks, ranks) == 0 && compare_reals(draft->threads, threads) == 0;
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
    history_draft_t *draft = *out = &build->drafts[build->n_drafts++];
    history_recording_t *recording = &draft->recording;
    size_t n = strlen(file), tail = strlen(".partial.jsonl");
    *recording = (history_recording_t){.file = file};
    recording->complete = n < tail || strcmp(file + n - tail, ".partial.jsonl") != 0;
    const report_fields_t *software = &run->software;
    report_field_t *fields;
    TRY(arena_new(&history->arena, (size_t)(software->n + 1) * sizeof *fields, &fields));
    for (int i = 0; i < software->n; i++) {
        const report_field_t *field = &software->at[i];
        fields[i] = *field;
        TRY(intern_text(&history->words, field->name, &fields[i].name));
        TRY(intern_text(&history->words, field->text ? field->text : "", &fields[i].text));
    }
    recording->software = (report_fields_t){fields, software->n};
    const report_field_t *git = fields_find(recording->software, "git");
    /* "unknown": built outside a repository. */
    recording->git = git && strcmp(git->text, "unknown") != 0 ? git->text : "";
    TRY(intern_text(&history->words, run->time, &recording->time));
    TRY(intern_text(&history->words, run->hardware_id, &draft->hardware_id));
    TRY(intern_text(&history->words, run->fabric_id, &draft->fabric_id));
    draft->file = build->n_files;
    draft->ranks = run->ranks;
    draft->threads = run->threads;
    TRY(describe_machine(history, run->hardware_id, &run->hardware, &draft->hardware));
    return describe_machine(history, run->fabric_id, &run->fabric, &draft->fabric);
}

/* Seconds since 1970 of a record's UTC time; NAN: malformed. */
static double history_seconds(const char *time)
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

/* Adds the fixed loop as a metric: on a machine that stays slow, every other metric is only "disturbed". */
static err_t add_clocks(history_t *history, int first)
{
    const metric_t like = {.case_name = "machine", .test = "clock", .key = "", .label = "machine clock"};
    for (int i = first; i < history->build->n_drafts; i++) {
        history_draft_t *draft = &history->build->drafts[i];
        history_point_t point = {.name = -1, .clock_sec = NAN};
        double *clocks;
        int64_t n = 0;
        TRY(mem_new_array(draft->n_points, sizeof *clocks, "clocks", &clocks));
        for (int64_t k = 0; k < draft->n_points; k++)
            if (isfinite(draft->points[k].clock_sec)) clocks[n++] = draft->points[k].clock_sec;
        point.p50 = stats_median(clocks, n);
        mem_free(&clocks);
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

/* A start's measurement and its place in the result. */
typedef struct entry {
    int order; /* of the metric in the group */
    int recording;
    const history_point_t *point;
} entry_t;

/* The drafts of a group. */
typedef struct members {
    history_draft_t **at;
    int n;
} members_t;

/* A total order, so that the order of the command line does not matter. */
static int compare_drafts(const void *a, const void *b)
{
    const history_draft_t *x = a, *y = b;
    int order = strcmp(x->recording.time, y->recording.time);
    if (order == 0) order = strcmp(x->recording.file, y->recording.file);
    if (order == 0) order = strcmp(x->hardware_id, y->hardware_id);
    if (order == 0) order = strcmp(x->fabric_id, y->fabric_id);
    if (order == 0) order = compare_reals(x->ranks, y->ranks);
    return order ? order : compare_reals(x->threads, y->threads);
}

static bool shares_run(const history_draft_t *a, const history_draft_t *b)
{
    for (int i = 0; i < a->recording.n_starts; i++)
        for (int k = 0; k < b->recording.n_starts; k++)
            if (a->ids[i] == b->ids[k]) return true;
    return false;
}

static bool same_place(const history_draft_t *a, const history_draft_t *b)
{
    return history_draft_is_of(a, b->hardware_id, b->fabric_id, b->ranks, b->threads);
}

static bool is_disturbed(const history_point_t *point, double clock)
{
    return point->disturbed || point->clock_sec > clock * (1 + COMPARE_CLOCK_SLACK);
}

/* entries: of one metric in one recording. */
static err_t compute_value(const entry_t *entries, int n, double clock, history_value_t *value)
{
    double *sec;
    int n_good = 0, n_sec = 0;
    for (int i = 0; i < n; i++) n_good += !is_disturbed(entries[i].point, clock);
    TRY(mem_new_array(n, sizeof *sec, "values", &sec));
    for (int i = 0; i < n; i++)
        if (n_good == 0 || !is_disturbed(entries[i].point, clock)) sec[n_sec++] = entries[i].point->p50;
    *value = (history_value_t){.recording = entries[0].recording,
                               .sec = stats_median(sec, n_sec),
                               .low = sec[0],
                               .high = sec[n_sec - 1],
                               .n_starts = n,
                               .n_used = n_sec,
                               .disturbed = n_good == 0};
    double mean = 0;
    for (int i = 0; i < n_sec; i++) mean += log(sec[i]) / n_sec;
    for (int i = 0; i < n_sec; i++) value->squares += (log(sec[i]) - mean) * (log(sec[i]) - mean);
    mem_free(&sec);
    return ERR_OK;
}

/* entries: of one metric, sorted by recording. */
static err_t add_metric(history_t *history, history_group_t *group, const entry_t *entries, int64_t n,
                        history_metric_t ***end)
{
    history_metric_t *metric;
    history_value_t *values;
    double *clocks;
    int64_t n_clocks = 0;
    const history_name_t *name = &history->build->names[entries[0].point->name];
    TRY(arena_new(&history->arena, sizeof *metric, &metric));
    TRY(arena_new(&history->arena, sizeof *values * (size_t)group->n_recordings, &values));
    *metric = (history_metric_t){.case_name = name->case_name,
                                 .test = name->test,
                                 .key = name->key,
                                 .label = name->label,
                                 .values = values};
    TRY(mem_new_array(n, sizeof *clocks, "clocks", &clocks));
    for (int64_t i = 0; i < n; i++)
        if (entries[i].point->clock_sec > 0) clocks[n_clocks++] = entries[i].point->clock_sec;
    double clock = compare_usual_clock(clocks, n_clocks);
    mem_free(&clocks);
    for (int64_t i = 0; i < n;) {
        int n_here = 1;
        while (i + n_here < n && entries[i + n_here].recording == entries[i].recording) n_here++;
        history_value_t *value = &values[metric->n_values++];
        TRY(compute_value(entries + i, n_here, clock, value));
        metric->n_disturbed += value->disturbed;
        group->n_starts_left_out += n_here - value->n_used;
        i += n_here;
    }
    group->n_values += metric->n_values;
    group->n_disturbed += metric->n_disturbed;
    group->n_metrics++;
    **end = metric;
    *end = &metric->next;
    return ERR_OK;
}

static int compare_entries(const void *a, const void *b)
{
    const entry_t *x = a, *y = b;
    if (x->order != y->order) return x->order - y->order;
    if (x->recording != y->recording) return x->recording - y->recording;
    return compare_reals(x->point->p50, y->point->p50);
}

/* The metrics of complete recordings, numbered by first occurrence. */
static err_t build_metrics(history_t *history, const members_t *members, history_group_t *group)
{
    entry_t *entries = NULL;
    int *orders = NULL, n_orders = 0;
    int64_t n = 0;
    history_metric_t *first = NULL, **end = &first;
    err_t err = ERR_OK;
    for (int r = 0; r < members->n; r++) n += members->at[r]->n_points;
    TRY_OUT(err, mem_new_array(n, sizeof *entries, "the points of recordings", &entries));
    TRY_OUT(err, mem_new_array(history->build->n_names, sizeof *orders, "names of metrics", &orders));
    n = 0;
    for (int r = 0; r < members->n; r++) {
        const history_draft_t *draft = members->at[r];
        for (int64_t i = 0; i < draft->n_points && draft->recording.complete; i++) {
            const history_point_t *point = &draft->points[i];
            if (orders[point->name] == 0) orders[point->name] = ++n_orders;
            entries[n++] = (entry_t){orders[point->name], r, point};
        }
    }
    qsort(entries, (size_t)n, sizeof *entries, compare_entries);
    for (int64_t i = 0, next; i < n; i = next) {
        for (next = i + 1; next < n && entries[next].order == entries[i].order; next++) continue;
        TRY_OUT(err, add_metric(history, group, entries + i, next - i, &end));
    }
    group->metrics = first;
out:
    mem_free(&entries);
    mem_free(&orders);
    return err;
}

static err_t build_group(history_t *history, const members_t *members, history_group_t **out)
{
    const history_draft_t *newest = members->at[members->n - 1];
    history_recording_t *recordings;
    history_group_t *group;
    TRY(arena_new(&history->arena, sizeof *group, &group));
    TRY(arena_new(&history->arena, sizeof *recordings * (size_t)members->n, &recordings));
    *group = (history_group_t){.hardware_id = newest->hardware_id,
                               .fabric_id = newest->fabric_id,
                               .hardware = newest->hardware,
                               .fabric = newest->fabric,
                               .ranks = newest->ranks,
                               .threads = newest->threads,
                               .recordings = recordings,
                               .n_recordings = members->n};
    for (int i = 0; i < members->n; i++) {
        recordings[i] = members->at[i]->recording;
        group->n_complete += recordings[i].complete;
        group->n_starts += recordings[i].n_starts;
    }
    group->days = (history_seconds(newest->recording.time) - history_seconds(recordings[0].time)) / 86400;
    TRY(arena_format(&history->arena, &group->name, "ranks %s, threads per rank %s; hardware %s; fabric %s",
                     figure_number(newest->ranks).text, figure_number(newest->threads).text, newest->hardware,
                     newest->fabric));
    history->n_recordings += group->n_recordings;
    history->n_interrupted += group->n_recordings - group->n_complete;
    *out = group;
    TRY(build_metrics(history, members, group));
    /* Different suites may give the same label to different keys; appends the key then. */
    for (history_metric_t *metric = group->metrics; metric; metric = metric->next) {
        const char *label = metric->label;
        int n_same = 0;
        for (history_metric_t *other = metric->next; other; other = other->next) {
            if (other->label != label) continue;
            TRY(arena_format(&history->arena, &other->label, "%s (%s)", label, other->key));
            n_same++;
        }
        if (n_same > 0) TRY(arena_format(&history->arena, &metric->label, "%s (%s)", label, metric->key));
    }
    return ERR_OK;
}

static bool is_first_of_place(const history_build_t *build, int i)
{
    for (int k = 0; k < i; k++)
        if (!build->drafts[k].is_copy && same_place(&build->drafts[k], &build->drafts[i])) return false;
    return !build->drafts[i].is_copy;
}

static const char *newest_time(const history_group_t *group)
{
    return group->recordings[group->n_recordings - 1].time;
}

/* A group is the newest `last` recordings of a place, by time. */
static err_t build_groups(history_t *history, int last)
{
    history_build_t *build = history->build;
    history_draft_t **room;
    TRY(arena_new(&history->arena, sizeof(history_draft_t *) * (size_t)(build->n_drafts + 1), &room));
    for (int i = 0; i < build->n_drafts; i++) {
        if (!is_first_of_place(build, i)) continue;
        members_t members = {room, 0};
        for (int k = i; k < build->n_drafts; k++) {
            history_draft_t *draft = &build->drafts[k];
            if (!draft->is_copy && same_place(draft, &build->drafts[i])) room[members.n++] = draft;
        }
        if (last > 0 && members.n > last) {
            members.at += members.n - last;
            members.n = last;
        }
        history_group_t *group, **at = &history->groups;
        TRY(build_group(history, &members, &group));
        while (*at && strcmp(newest_time(*at), newest_time(group)) >= 0) at = &(*at)->next;
        group->next = *at;
        *at = group;
        history->n_groups++;
    }
    return ERR_OK;
}

err_t history_finish(history_t *history, const history_options_t *options)
{
    int n_values = 0;
    if (!history->build) RAISE(ERR_DATA, "no recording to build a history from");
    history_build_t *build = history->build;
    if (build->n_drafts > 0)
        qsort(build->drafts, (size_t)build->n_drafts, sizeof *build->drafts, compare_drafts);
    for (int i = 0; i < build->n_drafts; i++)
        for (int k = 0; k < i; k++) {
            history_draft_t *draft = &build->drafts[i];
            const history_draft_t *other = &build->drafts[k];
            if (draft->is_copy || other->is_copy || other->file == draft->file) continue;
            draft->is_copy = shares_run(draft, other);
            history_count_left_out(build, LEFT_COPY, draft->is_copy, draft->recording.file);
        }
    TRY(build_groups(history, options->last));
    static const char *const words[LEFT_REASONS] = {
        [LEFT_TRAIN] = "runs of dptrain train, which do not record their machine",
        [LEFT_HEADLESS] = "runs whose first record (bench_run) is missing",
        [LEFT_TIMELESS] = "runs without a start time",
        [LEFT_NEWER] = "records whose schema is newer than this dptrain reads",
        [LEFT_LINES] = "lines that are not records",
        [LEFT_COPY] = "recordings named twice or copied from another file",
    };
    TRY(arena_new(&history->arena, sizeof *history->notes * LEFT_REASONS, &history->notes));
    for (int i = 0; i < LEFT_REASONS; i++) {
        const history_left_t *left = &history->build->left[i];
        if (left->n == 0) continue;
        TRY(arena_format(&history->arena, &history->notes[history->n_notes++],
                         "Left out: %s: %lld, the first in %s.", words[i], (long long)left->n, left->file));
    }
    for (const history_group_t *group = history->groups; group; group = group->next)
        n_values += group->n_values;
    if (n_values == 0)
        RAISE(ERR_DATA, "no usable recording: found %d, of which %d interrupted%s%s", history->n_recordings,
              history->n_interrupted, history->n_notes ? ". " : "",
              history->n_notes ? history->notes[0] : "");
    return history_find_changes(history, options);
}

void history_free(history_t *history)
{
    history_build_t *build = history->build;
    for (int i = 0; build && i < build->n_drafts; i++) {
        mem_free(&build->drafts[i].ids);
        mem_free(&build->drafts[i].points);
    }
    if (build) {
        mem_free(&build->drafts);
        mem_free(&build->names);
    }
    mem_free(&history->build);
    intern_free(&history->words);
    arena_free(&history->arena);
    *history = (history_t){0};
}

static const history_metric_t *find_metric(const history_t *history, const report_run_t *like,
                                           const char *case_name, const char *test, const char *key)
{
    for (const history_group_t *group = history->groups; group; group = group->next) {
        if (strcmp(group->hardware_id, like->hardware_id) != 0 ||
            strcmp(group->fabric_id, like->fabric_id) != 0 || compare_reals(group->ranks, like->ranks) != 0 ||
            compare_reals(group->threads, like->threads) != 0)
            continue;
        for (const history_metric_t *at = group->metrics; at; at = at->next)
            if (strcmp(at->case_name, case_name) == 0 && strcmp(at->test, test) == 0 &&
                strcmp(at->key, key) == 0)
                return at;
    }
    return NULL;
}

err_t history_spread(const history_t *history, const report_run_t *like, const char *case_name,
                     const char *test, const char *key, stats_spread_t *starts, stats_spread_t *recordings)
{
    const history_metric_t *metric = find_metric(history, like, case_name, test, key);
    double *off, of_starts = 0, within = 0;
    int n = 0;
    *starts = *recordings = (stats_spread_t){0};
    if (!metric) return ERR_OK;
    TRY(mem_new_array(metric->n_values, sizeof *off, "a series", &off));
    for (int i = 0; i < metric->n_values; i++) {
        const history_value_t *value = &metric->values[i];
        if (value->disturbed) continue;
        off[n++] = log(value->sec / history_level(metric, value->recording));
        starts->df += value->n_used - 1;
        of_starts += value->squares;
        if (value->n_used > 1) within += value->squares / (value->n_used - 1) / value->n_used;
    }
    if (starts->df > 0) starts->deviation = sqrt(of_starts / starts->df);
    const int n_parameters = metric->drift ? 2 : metric->n_changes + 1;
    if (n > n_parameters) {
        recordings->df = n - n_parameters;
        recordings->deviation = stats_winsorised_deviation(off, n, n_parameters);
        recordings->within = within / n;
    }
    mem_free(&off);
    return ERR_OK;
}
