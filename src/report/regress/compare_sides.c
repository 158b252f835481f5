/* SPDX-License-Identifier: MIT */
/* Checks that two sides are comparable (hardware, fabric, ranks, threads) and notes differences in
 * software, cut to what differs, and runs left out. */
#include <math.h>
#include <stdarg.h>
#include <string.h>

#include "base/mem.h"
#include "base/stats.h"
#include "base/utf8.h"
#include "records/record.h"
#include "report/records/report.h"
#include "report/regress/parts.h"

enum { MAX_VALUES = 16, MAX_NAMES = 64, MAX_SHOWN = 3 };

const char *const compare_side_names[2] = {"base", "new"};

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

double compare_usual_clock(double *clocks, int64_t n)
{
    stats_sort(clocks, n);
    return stats_quantile(clocks, n, 0.05);
}

/* The distinct values of a field over the complete runs of a recording. */
typedef struct values {
    const char *at[MAX_VALUES];
    int n;
    bool is_text;
} values_t;

typedef enum part { HARDWARE, FABRIC, SOFTWARE, JOB } part_t;

static report_fields_t fields_of(const report_run_t *run, part_t part)
{
    return part == HARDWARE ? run->hardware : part == FABRIC ? run->fabric : run->software;
}

static bool has_value(const values_t *values, const char *text)
{
    for (int i = 0; i < values->n; i++)
        if (strcmp(values->at[i], text) == 0) return true;
    return false;
}

/* name: a field of the part, "ranks" or "threads" of JOB; NULL: the part's id. */
static err_t collect_values(compare_work_t *work, int side, part_t part, const char *name, values_t *out)
{
    *out = (values_t){0};
    for (const report_run_t *run = metrics_next_complete(work->sides[side].report->runs); run;
         run = metrics_next_complete(run->next)) {
        const char *text = "";
        /* dptrain train does not record the fabric, nor its earlier versions the hardware. */
        if (run->train && (part == FABRIC || (part == HARDWARE && !run->hardware_id[0]))) continue;
        if (part == JOB) {
            bool ranks = strcmp(name, "ranks") == 0;
            double n = run->train ? (ranks ? run->train->ranks : run->train->threads)
                                  : (ranks ? run->ranks : run->threads);
            if (isfinite(n)) TRY(arena_format(&work->out->arena, &text, "%s", figure_number(n).text));
        } else if (!name) {
            text = part == HARDWARE ? run->hardware_id : part == FABRIC ? run->fabric_id : run->software_id;
        } else {
            const report_field_t *field = fields_find(fields_of(run, part), name);
            if (field && field->text) text = field->text;
            out->is_text |= field && field->text && field->kind == FIELD_TEXT;
        }
        if (!has_value(out, text) && out->n < MAX_VALUES) out->at[out->n++] = text;
    }
    return ERR_OK;
}

static err_t join_values(arena_t *arena, const values_t *values, bool quoted, const char **out)
{
    *out = "";
    for (int i = 0; i < values->n && i < MAX_SHOWN; i++) {
        const char *text = values->at[i], *quote = quoted && text[0] ? "\"" : "";
        TRY(arena_format(arena, out, "%s%s%s%s%s", *out, i ? " and " : "", quote,
                         text[0] ? text : "not recorded", quote));
    }
    if (values->n > MAX_SHOWN) TRY(arena_format(arena, out, "%s and %d more", *out, values->n - MAX_SHOWN));
    return ERR_OK;
}

err_t text_cut(arena_t *arena, const char *text, int n_columns, const char **out)
{
    int n = utf8_count(text), n_head = n_columns / 2, n_tail = n_columns - n_head - 1;
    const char *head = text, *tail = text;
    *out = text;
    if (n <= n_columns) return ERR_OK;
    for (int i = 0; i < n_head; i++) head += utf8_length(head) ? utf8_length(head) : 1;
    for (int i = 0; i < n - n_tail; i++) tail += utf8_length(tail) ? utf8_length(tail) : 1;
    return arena_format(arena, out, "%.*s…%s", (int)(head - text), text, tail);
}

err_t text_cut_pair(arena_t *arena, const char *before, const char *after, const char *out[2])
{
    enum { SIDE = 44, MAX_SAME = 16 };
    size_t n_same = 0;
    while (before[n_same] && before[n_same] == after[n_same]) n_same++;
    bool late = n_same > MAX_SAME && (strlen(before) > SIDE || strlen(after) > SIDE);
    while (late && n_same > 0 && before[n_same - 1] != ' ') n_same--;
    if (!late) n_same = 0;
    TRY(text_cut(arena, before + n_same, SIDE, &out[0]));
    TRY(text_cut(arena, after + n_same, SIDE, &out[1]));
    for (int i = 0; i < 2 && n_same > 0; i++) TRY(arena_format(arena, &out[i], "… %s", out[i]));
    return ERR_OK;
}

/* `cpu: "A" → "B"`; "" if they are equal. */
static err_t describe_difference(compare_work_t *work, part_t part, const char *name, const char **out)
{
    arena_t *arena = &work->out->arena;
    values_t values[2];
    const char *text[2];
    *out = "";
    for (int s = 0; s < 2; s++) TRY(collect_values(work, s, part, name, &values[s]));
    if (values[0].n == 0 || values[1].n == 0) return ERR_OK;
    bool quoted = values[0].is_text || values[1].is_text, in_both = values[0].n == values[1].n;
    for (int i = 0; i < values[0].n && in_both; i++) in_both = has_value(&values[1], values[0].at[i]);
    /* A recording may hold jobs of several sizes, but only one machine and one software. */
    if (in_both && (part == JOB || values[0].n == 1)) return ERR_OK;
    if (values[0].n == 1 && values[1].n == 1) {
        const char *cut[2];
        TRY(text_cut_pair(arena, values[0].at[0], values[1].at[0], cut));
        for (int s = 0; s < 2; s++) values[s].at[0] = cut[s];
    }
    for (int s = 0; s < 2; s++) TRY(join_values(arena, &values[s], quoted, &text[s]));
    const char *what = name ? name : part == HARDWARE ? "hardware" : part == FABRIC ? "fabric" : "software";
    if (in_both) return arena_format(arena, out, "%s: %s in both", what, text[0]);
    return arena_format(arena, out, "%s: %s → %s", what, text[0], text[1]);
}

/* Field names of the part in both recordings, in order of first occurrence. */
static int list_names(const compare_work_t *work, part_t part, const char *names[MAX_NAMES])
{
    int n = 0;
    for (int side = 0; side < 2; side++)
        for (const report_run_t *run = work->sides[side].report->runs; run; run = run->next) {
            report_fields_t fields = fields_of(run, part);
            for (int i = 0; i < fields.n; i++) {
                int at = 0;
                while (at < n && strcmp(names[at], fields.at[i].name) != 0) at++;
                if (at == n && n < MAX_NAMES) names[n++] = fields.at[i].name;
            }
        }
    return n;
}

/* Appends the differences of a part to a list of at most `capacity`. */
static err_t list_differences(compare_work_t *work, part_t part, const char **list, int capacity, int *n)
{
    const char *names[MAX_NAMES] = {"ranks", "threads"}, *id = "";
    int n_names = part == JOB ? 2 : list_names(work, part, names), before = *n;
    if (part == HARDWARE || part == FABRIC) {
        TRY(describe_difference(work, part, NULL, &id));
        if (!id[0]) return ERR_OK;
    }
    for (int i = 0; i < n_names && *n < capacity; i++) {
        TRY(describe_difference(work, part, names[i], &list[*n]));
        *n += list[*n][0] != '\0';
    }
    /* The ids differ although the fields do not. */
    if (id[0] && *n == before && *n < capacity) list[(*n)++] = id;
    return ERR_OK;
}

static err_t check_runs(compare_work_t *work, int side)
{
    const metrics_t *metrics = &work->sides[side];
    const report_t *report = metrics->report;
    arena_t *arena = &work->out->arena;
    const char *left_out = ""; /* "ab12 (interrupted), cd34 (no end record) and 2 more" */
    int n = 0;
    for (const report_run_t *run = report->runs; run; run = run->next) {
        const char *why = metrics_incomplete(run);
        if (!why || n++ >= MAX_SHOWN) continue;
        const char *name = run->id[0] ? run->id : run->time[0] ? run->time : "unnamed run";
        TRY(arena_format(arena, &left_out, "%s%s%s (%s)", left_out, n > 1 ? ", " : "", name, why));
    }
    if (n > MAX_SHOWN) TRY(arena_format(arena, &left_out, "%s and %d more", left_out, n - MAX_SHOWN));
    if (metrics->n_complete == 0)
        RAISE(ERR_DATA, "%s: no complete run to compare%s%s", work->out->sides[side].name,
              left_out[0] ? "; left out: " : "", left_out);
    /* Notes what reading left out. It was also logged, but the log is separate from the output. */
    for (int i = 0; i < report->n_files; i++) {
        const report_file_t *file = &report->files[i];
        if (file->bad.n > 0)
            TRY(compare_note(work, "%s: lines left out: %lld, the first in line %lld: %s", file->name,
                             (long long)file->bad.n, (long long)file->bad.line, file->bad.why));
        if (file->newer.n > 0)
            TRY(compare_note(work, "%s: records left out: %lld, their schema is newer than %d", file->name,
                             (long long)file->newer.n, RECORD_SCHEMA));
        if (file->again.n > 0)
            TRY(compare_note(work, "%s: points left out: %lld, they belong to a run read before", file->name,
                             (long long)file->again.n));
    }
    if (left_out[0])
        TRY(compare_note(work, "%s: incomplete runs left out: %s", compare_side_names[side], left_out));
    for (const report_run_t *run = metrics_next_complete(report->runs); run;
         run = metrics_next_complete(run->next))
        if (run->n_points_said > (double)run->n_points && report->n_filtered == 0)
            TRY(compare_note(work, "%s: run %s has %lld of its %.0f points", compare_side_names[side],
                             run->id, (long long)run->n_points, run->n_points_said));
    return ERR_OK;
}

/* Of training whose record does not say on what hardware it ran. */
static bool has_unplaced_train(const report_t *report)
{
    const report_run_t *run = metrics_next_complete(report->runs);
    while (run && !(run->train && !run->hardware_id[0])) run = metrics_next_complete(run->next);
    return run != NULL;
}

/* Refuses recordings of different machines or jobs; --force only notes the differences. */
static err_t check_machine(compare_work_t *work)
{
    const char *list[MAX_NAMES], *all = "";
    int n = 0;
    TRY(list_differences(work, HARDWARE, list, MAX_NAMES, &n));
    TRY(list_differences(work, FABRIC, list, MAX_NAMES, &n));
    TRY(list_differences(work, JOB, list, MAX_NAMES, &n));
    for (int i = 0; i < n; i++) {
        if (work->options->force)
            TRY(compare_note(work, "compared by --force: %s", list[i]));
        else
            TRY(arena_format(&work->out->arena, &all, "%s%s%s", all, i ? "; " : "", list[i]));
    }
    if (all[0])
        RAISE(ERR_DATA,
              "the recordings are of different machines or jobs, so a change could not be attributed to the "
              "software: %s; --force compares them anyway",
              all);
    return ERR_OK;
}

err_t compare_check_sides(compare_work_t *work)
{
    for (int side = 0; side < 2; side++) {
        const metrics_t *metrics = &work->sides[side];
        const report_t *report = metrics->report;
        compare_side_t *out = &work->out->sides[side];
        values_t git;
        *out = (compare_side_t){.name = report->n_files > 0 ? report->files[0].name : "nothing",
                                .first = "",
                                .last = "",
                                .git = "",
                                .n_runs = metrics->n_complete,
                                .n_left_out = metrics->n_left_out};
        if (report->n_files > 1)
            TRY(arena_format(&work->out->arena, &out->name, "%s and %d more file%s", report->files[0].name,
                             report->n_files - 1, report->n_files > 2 ? "s" : ""));
        for (int i = 0; i < report->n_files; i++) {
            const report_run_t *run = metrics_next_complete(report->runs);
            while (run && run->file != i) run = metrics_next_complete(run->next);
            out->n_recordings += run != NULL;
        }
        for (const report_run_t *run = metrics_next_complete(report->runs); run;
             run = metrics_next_complete(run->next)) {
            if (!run->time[0]) continue;
            if (!out->first[0] || strcmp(run->time, out->first) < 0) out->first = run->time;
            if (strcmp(run->time, out->last) > 0) out->last = run->time;
        }
        TRY(collect_values(work, side, SOFTWARE, "git", &git));
        if (git.n > 0) TRY(join_values(&work->out->arena, &git, false, &out->git));
    }
    for (int side = 0; side < 2; side++) TRY(check_runs(work, side));
    TRY(check_machine(work));
    if (has_unplaced_train(work->out->base) || has_unplaced_train(work->out->now))
        TRY(compare_note(work,
                         "earlier versions did not record the hardware of training runs, so it may differ"));
    const char *list[MAX_NAMES];
    int n = 0;
    TRY(list_differences(work, SOFTWARE, list, MAX_NAMES, &n));
    for (int i = 0; i < n; i++) TRY(compare_note(work, "software: %s", list[i]));
    /* Runs in both recordings are identical and would hide a change. */
    const int n_shared = metrics_shared_runs(work->out->base, work->out->now);
    if (n_shared == 0) return ERR_OK;
    if (n_shared == work->sides[0].n_complete && n_shared == work->sides[1].n_complete)
        return compare_note(work, "both recordings hold the same runs");
    return compare_note(work, "runs in both recordings: %d; they hide differences between the recordings",
                        n_shared);
}
