/* SPDX-License-Identifier: MIT */
/* Reads the results of other commands and lays them out; print.c, csv.c and html/head.c write them. */
#include "report/records/results.h"

#include <string.h>

#include "report/records/records.h"
#include "report/records/report.h"

enum { MAX_RESULT_FIELDS = 256, MAX_ROWS = 1000 };

typedef struct result_list {
    const char *name, *columns[RESULT_MAX_COLUMNS + 1];
} result_list_t;

static const struct {
    const char *title, *about; /* about: a member that the title ends with; NULL: none */
    result_list_t lists[2];    /* the first that a record has is shown */
} result_kinds[N_RECORD_KINDS] = {
    [RECORD_EVAL] = {"evaluation of", "checkpoint", {{NULL, {NULL}}}},
    [RECORD_PREDICTION] = {"prediction for",
                           "image",
                           {{"classes", {"class", "name", "probability"}},
                            {"objects", {"category_id", "name", "score", "bbox"}}}},
    [RECORD_CHECK] = {"check of",
                      "time",
                      {{"lines", {"host", "rank", "check", "name", "status", "found", "advice"}}}},
    [RECORD_CHECK_PROFILE] = {"profile of",
                              "time",
                              {{"facts", {"check", "name", "item", "text", "at_least"}}}},
    [RECORD_CHECK_HISTORY] = {"check of", "time", {{"hosts", {"host", "status", "lines"}}}},
    [RECORD_COMPARISON] = {"comparison:",
                           "verdict",
                           {{"metrics",
                             {"case", "test", "label", "verdict", "ratio", "low", "high", "attributed_to"}}}},
    [RECORD_HISTORY] = {"history",
                        NULL,
                        {{"groups", {"hardware_id", "fabric_id", "ranks", "threads", "days"}}}},
};

/* Adds a member under "NAME" or "OUTER.NAME". */
static err_t keep_field(report_t *report, const char *outer, const json_value_t *value, report_field_t *out)
{
    const char *name = value->key, *text;
    if (outer) TRY(arena_format(&report->arena, &name, "%s.%s", outer, value->key));
    TRY(report_copy_field(report, value, false, out));
    if (value->kind == JSON_ARRAY) {
        TRY(arena_format(&report->arena, &text, "a list of %lld", (long long)value->n));
        out->text = text;
    }
    return intern_text(&report->words, name, &out->name);
}

static err_t read_fields(const report_input_t *in, const result_list_t *list, const char *about,
                         report_fields_t *out)
{
    report_field_t *fields = NULL;
    int n = 0;
    TRY(arena_new(&in->report->arena, MAX_RESULT_FIELDS * sizeof *fields, &fields));
    for (const json_value_t *at = in->record->first; at; at = at->next) {
        const bool is_object = at->kind == JSON_OBJECT;
        if (strcmp(at->key, "record") == 0 || strcmp(at->key, "schema") == 0 ||
            (about && strcmp(at->key, about) == 0) || (list && strcmp(at->key, list->name) == 0))
            continue;
        for (const json_value_t *v = is_object ? at->first : at; v; v = is_object ? v->next : NULL) {
            if (n == MAX_RESULT_FIELDS) RAISE(ERR_DATA, "more than %d fields", MAX_RESULT_FIELDS);
            fields[n] = (report_field_t){0};
            TRY(keep_field(in->report, is_object ? at->key : NULL, v, &fields[n++]));
        }
    }
    *out = (report_fields_t){fields, n};
    return ERR_OK;
}

static err_t read_rows(const report_input_t *in, const json_value_t *list, report_result_t *result)
{
    report_field_t *cells = NULL;
    const int64_t n = list->n < MAX_ROWS ? list->n : MAX_ROWS;
    TRY(arena_new(&in->report->arena, (size_t)(n * result->n_columns + 1) * sizeof *cells, &cells));
    result->cells = cells;
    for (const json_value_t *at = list->first; at && result->n_rows < n; at = at->next, result->n_rows++)
        for (int c = 0; c < result->n_columns; c++, cells++) {
            const json_value_t *member = json_get(at, result->columns[c]);
            *cells = (report_field_t){.name = result->columns[c]};
            if (member) TRY(report_copy_field(in->report, member, false, cells));
        }
    return ERR_OK;
}

err_t read_result(const report_input_t *in)
{
    report_t *report = in->report;
    report_result_t *result = NULL;
    TRY(arena_new(&report->arena, sizeof *result, &result));
    *result =
        (report_result_t){.kind = record_kinds[in->kind].name, .file = in->file_index, .line = in->line};
    const result_list_t *list = NULL;
    const json_value_t *rows = NULL;
    for (int i = 0; i < 2 && !rows && result_kinds[in->kind].lists[i].name; i++) {
        list = &result_kinds[in->kind].lists[i];
        rows = json_get(in->record, list->name);
        if (rows && rows->kind != JSON_ARRAY) rows = NULL;
    }
    if (rows) {
        result->list = list->name;
        result->columns = list->columns;
        while (list->columns[result->n_columns]) result->n_columns++;
        TRY(read_rows(in, rows, result));
    }
    const char *about = result_kinds[in->kind].about;
    if (!about || !json_get_text(in->record, about, &result->about)) result->about = "";
    TRY(intern_text(&report->words, result->about, &result->about));
    TRY(arena_format(&report->arena, &result->title, "%s%s%s", result_kinds[in->kind].title,
                     result->about[0] ? " " : "", result->about));
    TRY(read_fields(in, rows ? list : NULL, about, &result->fields));
    if (report->last_result)
        report->last_result->next = result;
    else
        report->results = result;
    report->last_result = result;
    return ERR_OK;
}

static err_t put_field(arena_t *arena, const report_field_t *field, const char **out)
{
    figure_t room;
    return arena_format(arena, out, "%s", fields_text(field, &room));
}

err_t report_result_facts(arena_t *arena, const report_t *report, const report_result_t *result, fact_t **out)
{
    fact_t *facts = NULL;
    TRY(arena_new(arena, (size_t)(result->fields.n + 1) * sizeof *facts, &facts));
    facts[0] = (fact_t){"file", report->files[result->file].name};
    for (int i = 0; i < result->fields.n; i++) {
        facts[1 + i].name = result->fields.at[i].name;
        TRY(put_field(arena, &result->fields.at[i], &facts[1 + i].text));
    }
    *out = facts;
    return ERR_OK;
}

err_t report_result_table(arena_t *arena, const report_result_t *result, table_t *out)
{
    const int n_all = result->n_columns;
    int columns[RESULT_MAX_COLUMNS]; /* those that a row has */
    *out = (table_t){.title = result->list, .caption = "", .n_rows = result->n_rows};
    if (result->n_rows == MAX_ROWS) TRY(arena_format(arena, &out->caption, "the first %d", MAX_ROWS));
    for (int c = 0; c < n_all; c++) {
        bool any = false;
        table_column_t *column = &out->columns[out->n_columns];
        *column = (table_column_t){.heading = result->columns[c]};
        for (const report_field_t *at = result->cells + c; at < result->cells + result->n_rows * n_all;
             at += n_all) {
            any |= at->kind != FIELD_MISSING;
            column->is_text |= at->kind == FIELD_TEXT;
        }
        if (any) columns[out->n_columns++] = c;
    }
    TRY(arena_new(arena, (size_t)(out->n_rows * out->n_columns + 1) * sizeof *out->cells, &out->cells));
    for (int64_t r = 0; r < out->n_rows; r++)
        for (int c = 0; c < out->n_columns; c++)
            TRY(put_field(arena, &result->cells[r * n_all + columns[c]],
                          &out->cells[r * out->n_columns + c]));
    return ERR_OK;
}
