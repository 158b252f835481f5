/* SPDX-License-Identifier: MIT */
/* Reads the records of `dptrain bench`: bench_run, bench, bench_end. */
#include <math.h>
#include <string.h>

#include "report/records/records.h"

/* Points without an id belong to one run per file. NULL: no such run yet. */
static report_run_t *find_run(const report_input_t *in, const char *id)
{
    report_t *report = in->report;
    const report_run_t *now = report->now; /* usually the run of the previous point */
    if (now && !now->train && now->id[0] && strcmp(now->id, id) == 0) return report->now;
    for (report_run_t *run = report->runs; run; run = run->next) {
        if (run->train || strcmp(run->id, id) != 0) continue;
        if (!id[0] && run->file != in->file_index) continue;
        return report->now = run;
    }
    return NULL;
}

static err_t find_or_add_run(const report_input_t *in, const char *id, report_run_t **out)
{
    *out = find_run(in, id);
    if (!*out) TRY(report_add_run(in, id, out));
    in->report->now = *out;
    return ERR_OK;
}

static err_t read_bench_run(const report_input_t *in)
{
    report_t *report = in->report;
    const char *id;
    report_run_t *run;
    bool newer = false;
    TRY(report_check_schema(in, &newer));
    if (newer) return ERR_OK;
    if (!json_get_text(in->record, "id", &id) || !id[0]) RAISE(ERR_DATA, "bench_run record without \"id\"");
    TRY(find_or_add_run(in, id, &run));
    in->file->n_records++;
    if (run->line > 0) {
        run->again_file = in->file_index;
        return ERR_OK;
    }
    run->line = in->line;
    run->file = in->file_index;
    const json_value_t *print = json_get(in->record, "fingerprint");
    const char *partner;
    if (json_get_text(in->record, "interleaved_with", &partner))
        TRY(intern_text(&report->words, partner, &run->interleaved_with));
    TRY(report_copy_text(report, in->record, "time", &run->time));
    run->ranks = report_get_real(in->record, "ranks");
    run->threads = report_get_real(in->record, "threads");
    TRY(report_copy_text(report, print, "hardware_id", &run->hardware_id));
    TRY(report_copy_text(report, print, "fabric_id", &run->fabric_id));
    TRY(report_copy_text(report, print, "software_id", &run->software_id));
    TRY(report_copy_fields(report, json_get(print, "hardware"), true, &run->hardware));
    TRY(report_copy_fields(report, json_get(print, "fabric"), true, &run->fabric));
    return report_copy_fields(report, json_get(print, "software"), true, &run->software);
}

static err_t read_timing(const report_input_t *in, const report_timing_t **out)
{
    const json_value_t *r = in->record, *samples = json_get(r, "samples");
    const json_value_t *ci = json_get(r, "ci95"), *low = NULL, *high = NULL;
    report_timing_t *t = NULL;
    int64_t n_missing = samples ? samples->n_missing : 0; /* counted by the parser if it skipped the array */
    double value;
    *out = NULL;
    if (!json_get(r, "p50") && !json_get(r, "unit")) return ERR_OK;
    if (ci && ci->kind == JSON_ARRAY && ci->n == 2) {
        low = ci->first;
        high = low->next;
    }
    for (const json_value_t *at = samples ? samples->first : NULL; at; at = at->next)
        n_missing += !json_as_real(at, &value);
    TRY(arena_new(&in->report->arena, sizeof *t, &t));
    *t = (report_timing_t){
        .n = report_get_real(r, "n"),
        .per_sample = report_get_real(r, "per_sample"),
        .n_disturbed = report_get_real(r, "n_disturbed"),
        .min = report_get_real(r, "min"),
        .p50 = report_get_real(r, "p50"),
        .p95 = report_get_real(r, "p95"),
        .p99 = report_get_real(r, "p99"),
        .max = report_get_real(r, "max"),
        .mean = report_get_real(r, "mean"),
        .cv = report_get_real(r, "cv"),
        .ci_low = NAN,
        .ci_high = NAN,
        .slowest_rank = report_get_real(r, "slowest_rank"),
        .slowest_share = report_get_real(r, "slowest_share"),
        .clock_sec = report_get_real(r, "clock_sec"),
        .n_missing = n_missing,
    };
    json_as_real(low, &t->ci_low);
    json_as_real(high, &t->ci_high);
    TRY(report_copy_text(in->report, r, "unit", &t->unit));
    TRY(report_copy_text(in->report, r, "verdict", &t->verdict));
    TRY(report_copy_text(in->report, r, "disturbances", &t->disturbances));
    *out = t;
    return ERR_OK;
}

static err_t find_group(report_t *report, report_run_t *run, const char *case_name, const char *test)
{
    report_group_t *group = run->now_group;
    if (group && group->case_name == case_name && group->test == test) return ERR_OK;
    for (group = run->groups; group; group = group->next)
        if (group->case_name == case_name && group->test == test) break;
    if (!group) {
        TRY(arena_new(&report->arena, sizeof *group, &group));
        *group = (report_group_t){.case_name = case_name, .test = test};
        if (run->last_group)
            run->last_group->next = group;
        else
            run->groups = group;
        run->last_group = group;
    }
    run->now_group = group;
    return ERR_OK;
}

static bool is_wanted(const report_t *report, const char *case_name, const char *test)
{
    return (!report->only_case || strcmp(report->only_case, case_name) == 0) &&
           (!report->only_test || strcmp(report->only_test, test) == 0);
}

static err_t add_point(const report_input_t *in, report_run_t *run)
{
    report_point_t *point = NULL;
    TRY(arena_new(&in->report->arena, sizeof *point, &point));
    *point = (report_point_t){.line = in->line, .file = in->file_index};
    TRY(report_copy_fields(in->report, json_get(in->record, "key"), true, &point->key));
    TRY(report_copy_fields(in->report, json_get(in->record, "metrics"), false, &point->metrics));
    TRY(read_timing(in, &point->timing));
    if (in->report->keep_samples && point->timing) TRY(report_copy_samples(in->report, in->record, point));
    report_group_t *group = run->now_group;
    if (group->last)
        group->last->next = point;
    else
        group->first = point;
    group->last = point;
    group->n_points++;
    run->n_points++;
    return ERR_OK;
}

static err_t read_bench(const report_input_t *in)
{
    const char *id = "", *case_name, *test;
    report_run_t *run;
    bool newer = false;
    TRY(report_check_schema(in, &newer));
    if (newer) return ERR_OK;
    json_get_text(in->record, "run", &id);
    if (!json_get_text(in->record, "case", &case_name) || !json_get_text(in->record, "test", &test))
        RAISE(ERR_DATA, "bench record without \"case\" or \"test\"");
    TRY(intern_text(&in->report->words, case_name, &case_name));
    TRY(intern_text(&in->report->words, test, &test));
    TRY(find_or_add_run(in, id, &run));
    if (run->again_file == in->file_index) {
        report_note(&in->file->again, in->line, run->id);
        in->file->n_records++;
        return ERR_OK;
    }
    TRY(find_group(in->report, run, case_name, test));
    if (is_wanted(in->report, case_name, test))
        TRY(add_point(in, run));
    else
        in->report->n_filtered++;
    in->file->n_records++;
    return ERR_OK;
}

static err_t read_bench_end(const report_input_t *in)
{
    const char *id = "";
    bool newer = false;
    TRY(report_check_schema(in, &newer));
    if (newer) return ERR_OK;
    json_get_text(in->record, "run", &id);
    report_run_t *run = find_run(in, id);
    in->file->n_records++;
    if (!run || run->again_file == in->file_index) return ERR_OK;
    TRY(report_copy_text(in->report, in->record, "reason", &run->end_reason));
    run->n_points_said = report_get_real(in->record, "n_points");
    run->seconds = report_get_real(in->record, "seconds");
    return ERR_OK;
}

record_reader_t bench_record_reader(const char *kind)
{
    if (strcmp(kind, "bench") == 0) return read_bench;
    if (strcmp(kind, "bench_run") == 0) return read_bench_run;
    if (strcmp(kind, "bench_end") == 0) return read_bench_end;
    return NULL;
}
