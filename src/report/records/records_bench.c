/* SPDX-License-Identifier: MIT */
/* Reads the records of `dptrain bench`: bench_run, bench, bench_end. */
#include <math.h>
#include <string.h>

#include "report/records/records.h"

/* ---- Samples of a point: total, parts, and the size of each batch ---- */
static bool is_part(const json_value_t *value)
{
    static const char ending[] = "_samples";
    size_t n = strlen(value->key), n_ending = sizeof ending - 1;
    return value->kind == JSON_ARRAY && n > n_ending && strcmp(value->key + n - n_ending, ending) == 0;
}

static err_t read_array(report_t *report, const json_value_t *array, const char *part, report_samples_t *out)
{
    double *sec;
    int64_t i = 0;
    TRY(arena_new(&report->arena, (size_t)array->n * sizeof *sec, &sec));
    for (const json_value_t *at = array->first; at; at = at->next, i++)
        if (!json_as_real(at, &sec[i])) sec[i] = NAN;
    *out = (report_samples_t){.sec = sec, .n = array->n};
    return intern_text(&report->words, part, &out->part);
}

/* Ignores batch sizes that do not add up to the samples. */
static err_t read_batches(report_t *report, const json_value_t *array, report_point_t *point)
{
    int32_t *batch_n;
    int64_t sum = 0, n, i = 0;
    if (!array || array->kind != JSON_ARRAY || array->n == 0) return ERR_OK;
    TRY(arena_new(&report->arena, (size_t)array->n * sizeof *batch_n, &batch_n));
    for (const json_value_t *at = array->first; at; at = at->next, i++) {
        if (!json_as_int(at, &n) || n < 0 || n > point->samples->n - sum) return ERR_OK;
        batch_n[i] = (int32_t)n;
        sum += n;
    }
    if (sum != point->samples->n) return ERR_OK;
    point->batch_n = batch_n;
    point->n_batches = narrow_int(array->n);
    return ERR_OK;
}

/* Copies a point's samples and batches into the report. */
static err_t report_copy_samples(report_t *report, const json_value_t *record, report_point_t *point)
{
    const json_value_t *total = json_get(record, "samples");
    report_samples_t *samples;
    int n = 1;
    if (!total || total->kind != JSON_ARRAY || total->n == 0) return ERR_OK;
    for (const json_value_t *at = record->first; at; at = at->next) n += is_part(at);
    TRY(arena_new(&report->arena, (size_t)n * sizeof *samples, &samples));
    TRY(read_array(report, total, "", &samples[0]));
    n = 1;
    for (const json_value_t *at = record->first; at; at = at->next) {
        char part[64];
        size_t n_part = strlen(at->key) - strlen("_samples");
        if (!is_part(at) || at->n != total->n || n_part >= sizeof part) continue;
        memcpy(part, at->key, n_part);
        part[n_part] = '\0';
        TRY(read_array(report, at, part, &samples[n++]));
    }
    point->samples = samples;
    point->n_samples = n;
    return read_batches(report, json_get(record, "batch_n"), point);
}

/* ---- Runs and points ---- */
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

static const record_place_t run_places[] = {
    PLACE(report_run_t, time, "time"),
    PLACE(report_run_t, ranks, "ranks"),
    PLACE(report_run_t, threads, "threads"),
    PLACE(report_run_t, interleaved_with, "interleaved_with"),
    PLACE(report_run_t, hardware_id, "fingerprint.hardware_id"),
    PLACE(report_run_t, fabric_id, "fingerprint.fabric_id"),
    PLACE(report_run_t, software_id, "fingerprint.software_id"),
    PLACE(report_run_t, hardware, "fingerprint.hardware"),
    PLACE(report_run_t, fabric, "fingerprint.fabric"),
    PLACE(report_run_t, software, "fingerprint.software"),
    {0},
};

err_t read_bench_run(const report_input_t *in)
{
    const char *id;
    report_run_t *run;
    if (!json_get_text(in->record, "id", &id) || !id[0]) RAISE(ERR_DATA, "bench_run record without \"id\"");
    TRY(find_or_add_run(in, id, &run));
    if (run->line > 0) {
        run->again_file = in->file_index;
        return ERR_OK;
    }
    run->line = in->line;
    run->file = in->file_index;
    return report_fill(in, run_places, run);
}

#define TIMING(member) PLACE(report_timing_t, member, #member)

static const record_place_t timing_places[] = {
    TIMING(unit),
    TIMING(verdict),
    TIMING(disturbances),
    TIMING(n),
    TIMING(per_sample),
    TIMING(n_disturbed),
    TIMING(min),
    TIMING(p50),
    TIMING(p95),
    TIMING(p99),
    TIMING(max),
    TIMING(mean),
    TIMING(cv),
    TIMING(slowest_rank),
    TIMING(slowest_share),
    TIMING(clock_sec),
    {0},
};

static err_t read_timing(const report_input_t *in, const report_timing_t **out)
{
    const json_value_t *r = in->record, *samples = json_get(r, "samples"), *ci = json_get(r, "ci95");
    report_timing_t *t = NULL;
    double value;
    *out = NULL;
    if (!json_get(r, "p50") && !json_get(r, "unit")) return ERR_OK;
    TRY(arena_new(&in->report->arena, sizeof *t, &t));
    *t = (report_timing_t){.ci_low = NAN, .ci_high = NAN};
    if (samples) t->n_missing = samples->n_missing; /* counted by the parser if it skipped the array */
    for (const json_value_t *at = samples ? samples->first : NULL; at; at = at->next)
        t->n_missing += !json_as_real(at, &value);
    if (ci && ci->kind == JSON_ARRAY && ci->n == 2) {
        json_as_real(ci->first, &t->ci_low);
        json_as_real(ci->first->next, &t->ci_high);
    }
    *out = t;
    return report_fill(in, timing_places, t);
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

err_t read_bench_point(const report_input_t *in)
{
    const char *id = "", *case_name, *test;
    report_run_t *run;
    json_get_text(in->record, "run", &id);
    if (!json_get_text(in->record, "case", &case_name) || !json_get_text(in->record, "test", &test))
        RAISE(ERR_DATA, "bench record without \"case\" or \"test\"");
    TRY(intern_text(&in->report->words, case_name, &case_name));
    TRY(intern_text(&in->report->words, test, &test));
    TRY(find_or_add_run(in, id, &run));
    if (run->again_file == in->file_index) {
        report_note(&in->file->again, in->line, run->id);
        return ERR_OK;
    }
    TRY(find_group(in->report, run, case_name, test));
    if (is_wanted(in->report, case_name, test))
        TRY(add_point(in, run));
    else
        in->report->n_filtered++;
    return ERR_OK;
}

static const record_place_t end_places[] = {
    PLACE(report_run_t, end_reason, "reason"),
    PLACE(report_run_t, n_points_said, "n_points"),
    PLACE(report_run_t, seconds, "seconds"),
    {0},
};

err_t read_bench_end(const report_input_t *in)
{
    const char *id = "";
    json_get_text(in->record, "run", &id);
    report_run_t *run = find_run(in, id);
    return run && run->again_file != in->file_index ? report_fill(in, end_places, run) : ERR_OK;
}
