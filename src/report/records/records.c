/* SPDX-License-Identifier: MIT */
/* Helpers of the record readers: places of values, fields, counts of rejected lines, runs. records_*.c read each kind. */
#include "report/records/records.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* More of a point are an error, of a run left out. */
enum { MAX_FIELDS = 64, MAX_PLACED = 256 };

void report_note(report_trouble_t *trouble, int64_t line, const char *why)
{
    if (trouble->n++ > 0) return;
    trouble->line = line;
    snprintf(trouble->why, sizeof trouble->why, "%s", why);
}

/* Joins the scalars inside, as far as they fit: "eth0 25 ib0 200". */
static void join_values(const json_value_t *container, char *out, size_t n_bytes)
{
    for (const json_value_t *at = container->first; at; at = at->next) {
        size_t used = strlen(out);
        const char *text = at->kind == JSON_BOOL ? (at->truth ? "yes" : "no") : at->text ? at->text : "-";
        if (at->kind == JSON_ARRAY || at->kind == JSON_OBJECT)
            join_values(at, out, n_bytes);
        else if (used + strlen(text) + 2 <= n_bytes)
            snprintf(out + used, n_bytes - used, "%s%s", used ? " " : "", text);
    }
}

err_t report_copy_field(report_t *report, const json_value_t *value, bool keep_text, report_field_t *out)
{
    const char *text = NULL;
    char joined[128] = "";
    TRY(intern_text(&report->words, value->key, &out->name));
    out->kind = FIELD_TEXT;
    switch (value->kind) {
    case JSON_NUMBER:
        out->kind = json_as_real(value, &out->number) ? FIELD_NUMBER : FIELD_MISSING;
        if (keep_text && out->kind == FIELD_NUMBER) text = value->text;
        break;
    case JSON_STRING:
        text = value->text;
        break;
    case JSON_BOOL:
        text = value->truth ? "yes" : "no";
        break;
    case JSON_NULL:
        out->kind = FIELD_MISSING;
        break;
    case JSON_ARRAY:
    case JSON_OBJECT:
        join_values(value, joined, sizeof joined);
        text = joined;
        break;
    }
    return text ? intern_text(&report->words, text, &out->text) : ERR_OK;
}

static err_t copy_fields(report_t *report, const json_value_t *object, bool keep_text, int n_most,
                         report_fields_t *out)
{
    report_field_t *fields = NULL;
    int n = 0;
    *out = (report_fields_t){0};
    if (!object || object->kind != JSON_OBJECT || object->n == 0) return ERR_OK;
    TRY(arena_new(&report->arena, (size_t)object->n * sizeof *fields, &fields));
    for (const json_value_t *at = object->first; at && n < n_most; at = at->next) {
        fields[n] = (report_field_t){0};
        TRY(report_copy_field(report, at, keep_text, &fields[n++]));
    }
    *out = (report_fields_t){fields, n};
    return ERR_OK;
}

err_t report_copy_fields(report_t *report, const json_value_t *object, bool keep_text, report_fields_t *out)
{
    if (object && object->kind == JSON_OBJECT && object->n > MAX_FIELDS)
        RAISE(ERR_DATA, "\"%s\" has more than %d members", object->key, MAX_FIELDS);
    return copy_fields(report, object, keep_text, MAX_FIELDS, out);
}

static const json_value_t *find_value(const json_value_t *object, const char *path)
{
    const json_value_t *at = object;
    for (size_t n; at && path; path = path[n] ? path + n + 1 : NULL) {
        n = strcspn(path, ".");
        at = at->kind == JSON_OBJECT ? at->first : NULL;
        while (at && !(at->key[0] == path[0] && strncmp(at->key, path, n) == 0 && !at->key[n])) at = at->next;
    }
    return at;
}

/* NULL: missing. */
static err_t fill_place(report_t *report, const json_value_t *value, place_kind_t kind, void *out)
{
    if (kind == PLACE_FIELDS) return copy_fields(report, value, true, MAX_PLACED, out);
    if (kind == PLACE_TEXT)
        return intern_text(&report->words, value && value->kind == JSON_STRING ? value->text : "", out);
    if (!json_as_real(value, out)) *(double *)out = NAN;
    return ERR_OK;
}

err_t report_fill(const report_input_t *in, const record_place_t *places, void *out)
{
    for (; places->path; places++) {
        const json_value_t *value = find_value(in->record, places->path);
        ASSERT(value || record_field(&record_kinds[in->kind], places->path));
        TRY(fill_place(in->report, value, places->kind, (char *)out + places->at));
    }
    return ERR_OK;
}

err_t report_fill_members(report_t *report, const json_value_t *object, const record_place_t *places,
                          void *out)
{
    for (; places->path; places++)
        TRY(fill_place(report, json_get(object, places->path), places->kind, (char *)out + places->at));
    return ERR_OK;
}

err_t report_fill_none(const report_input_t *in, const record_place_t *places, void *out)
{
    for (; places->path; places++) TRY(fill_place(in->report, NULL, places->kind, (char *)out + places->at));
    return ERR_OK;
}

double report_get_real(const report_input_t *in, const char *name)
{
    double value;
    if (json_get_real(in->record, name, &value)) return value;
    ASSERT(record_field(&record_kinds[in->kind], name));
    return NAN;
}

err_t report_add_run(const report_input_t *in, const char *id, report_run_t **out)
{
    report_t *report = in->report;
    report_run_t *run = NULL;
    TRY(arena_new(&report->arena, sizeof *run, &run));
    *run = (report_run_t){.file = in->file_index, .n_points_said = NAN, .seconds = NAN, .again_file = -1};
    TRY(intern_text(&report->words, id, &run->id));
    TRY(intern_text(&report->words, "", &run->time));
    run->hardware_id = run->fabric_id = run->software_id = run->end_reason = run->interleaved_with =
        run->time;
    run->ranks = run->threads = NAN;
    if (report->last)
        report->last->next = run;
    else
        report->runs = run;
    report->last = run;
    *out = run;
    return ERR_OK;
}
