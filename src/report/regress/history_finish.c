/* SPDX-License-Identifier: MIT */
/* Sorts recordings by time, drops copies, groups them by hardware, fabric, ranks and threads, and computes
 * the values of each group. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/figure.h"
#include "base/mem.h"
#include "base/stats.h"
#include "report/regress/history_build.h"

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

static int compare_reals(double a, double b)
{
    if (isnan(a) || isnan(b)) return isnan(a) - isnan(b);
    return (a > b) - (a < b);
}

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

static void mark_copies(history_build_t *build)
{
    for (int i = 0; i < build->n_drafts; i++)
        for (int k = 0; k < i; k++) {
            history_draft_t *draft = &build->drafts[i];
            const history_draft_t *other = &build->drafts[k];
            if (draft->is_copy || other->is_copy || other->file == draft->file) continue;
            draft->is_copy = shares_run(draft, other);
            history_count_left_out(build, LEFT_COPY, draft->is_copy, draft->recording.file);
        }
}

bool history_draft_is_of(const history_draft_t *draft, const char *hardware_id, const char *fabric_id,
                         double ranks, double threads)
{
    return strcmp(draft->hardware_id, hardware_id) == 0 && strcmp(draft->fabric_id, fabric_id) == 0 &&
           compare_reals(draft->ranks, ranks) == 0 && compare_reals(draft->threads, threads) == 0;
}

static bool same_place(const history_draft_t *a, const history_draft_t *b)
{
    return history_draft_is_of(a, b->hardware_id, b->fabric_id, b->ranks, b->threads);
}

/* entries: of one metric in all recordings. */
static err_t usual_clock(const entry_t *entries, int64_t n, double *out)
{
    double *clocks;
    int64_t n_clocks = 0;
    TRY(mem_new_array(n, sizeof *clocks, "clocks", &clocks));
    for (int64_t i = 0; i < n; i++)
        if (entries[i].point->clock_sec > 0) clocks[n_clocks++] = entries[i].point->clock_sec;
    *out = compare_usual_clock(clocks, n_clocks);
    mem_free(&clocks);
    return ERR_OK;
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
    mem_free(&sec);
    return ERR_OK;
}

/* entries: of one metric, sorted by recording. */
static err_t add_metric(history_t *history, history_group_t *group, const entry_t *entries, int64_t n,
                        history_metric_t ***end)
{
    history_metric_t *metric;
    history_value_t *values;
    double clock;
    const history_name_t *name = &history->build->names[entries[0].point->name];
    TRY(arena_new(&history->arena, sizeof *metric, &metric));
    TRY(arena_new(&history->arena, sizeof *values * (size_t)group->n_recordings, &values));
    *metric = (history_metric_t){.case_name = name->case_name,
                                 .test = name->test,
                                 .key = name->key,
                                 .label = name->label,
                                 .values = values};
    TRY(usual_clock(entries, n, &clock));
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

/* Lists the points of complete recordings. Metrics are numbered by first occurrence. Returns the number of
 * entries. */
static int64_t list_entries(const members_t *members, int *orders, entry_t *entries)
{
    int64_t n = 0;
    int n_orders = 0;
    for (int r = 0; r < members->n; r++) {
        const history_draft_t *draft = members->at[r];
        for (int64_t i = 0; i < draft->n_points && draft->recording.complete; i++) {
            const history_point_t *point = &draft->points[i];
            if (orders[point->name] == 0) orders[point->name] = ++n_orders;
            entries[n++] = (entry_t){orders[point->name], r, point};
        }
    }
    qsort(entries, (size_t)n, sizeof *entries, compare_entries);
    return n;
}

static err_t build_metrics(history_t *history, const members_t *members, history_group_t *group)
{
    entry_t *entries = NULL;
    int *orders = NULL;
    int64_t n = 0;
    history_metric_t *first = NULL, **end = &first;
    err_t err = ERR_OK;
    for (int r = 0; r < members->n; r++) n += members->at[r]->n_points;
    TRY_OUT(err, mem_new_array(n, sizeof *entries, "the points of recordings", &entries));
    TRY_OUT(err, mem_new_array(history->build->n_names, sizeof *orders, "names of metrics", &orders));
    n = list_entries(members, orders, entries);
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

/* Different suites may give the same label to different keys; appends the key then. */
static err_t make_labels_unique(history_t *history, const history_group_t *group)
{
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
    return make_labels_unique(history, group);
}

/* The newest `last` drafts on the machine of drafts[i], by time. */
static members_t gather_members(history_build_t *build, int i, int last, history_draft_t **room)
{
    members_t members = {room, 0};
    for (int k = i; k < build->n_drafts; k++) {
        history_draft_t *draft = &build->drafts[k];
        if (!draft->is_copy && same_place(draft, &build->drafts[i])) room[members.n++] = draft;
    }
    if (last > 0 && members.n > last) {
        members.at += members.n - last;
        members.n = last;
    }
    return members;
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

static err_t build_groups(history_t *history, int last)
{
    history_build_t *build = history->build;
    history_draft_t **room;
    TRY(arena_new(&history->arena, sizeof(history_draft_t *) * (size_t)(build->n_drafts + 1), &room));
    for (int i = 0; i < build->n_drafts; i++) {
        if (!is_first_of_place(build, i)) continue;
        const members_t members = gather_members(build, i, last, room);
        history_group_t *group, **at = &history->groups;
        TRY(build_group(history, &members, &group));
        while (*at && strcmp(newest_time(*at), newest_time(group)) >= 0) at = &(*at)->next;
        group->next = *at;
        *at = group;
        history->n_groups++;
    }
    return ERR_OK;
}

static err_t list_notes(history_t *history)
{
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
    return ERR_OK;
}

err_t history_finish(history_t *history, const history_options_t *options)
{
    int n_values = 0;
    if (!history->build) RAISE(ERR_DATA, "no recording to build a history from");
    history_build_t *build = history->build;
    if (build->n_drafts > 0)
        qsort(build->drafts, (size_t)build->n_drafts, sizeof *build->drafts, compare_drafts);
    mark_copies(build);
    TRY(build_groups(history, options->last));
    TRY(list_notes(history));
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

int history_count_slower(const history_t *history, int n)
{
    int n_slower = 0;
    for (const history_group_t *group = history->groups; group; group = group->next)
        for (const history_metric_t *metric = group->metrics; metric; metric = metric->next)
            for (int i = 0; i < metric->n_changes; i++)
                n_slower +=
                    metric->changes[i].ratio > 1 && metric->changes[i].after >= group->n_recordings - n;
    return n_slower;
}
