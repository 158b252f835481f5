/* SPDX-License-Identifier: MIT */
/* The tables of records for others: as a JSON Schema for programs, as Markdown for people. */
#include "records/record.h"

#include "base/mem.h"
#include "text/figure.h"

/* ---- The JSON Schema ---- */
static void put_type(json_t *j, const record_field_t *f, const char *type)
{
    if (!f->nullable) {
        json_string(j, "type", type);
        return;
    }
    json_array_begin(j, "type");
    json_string(j, NULL, type);
    json_string(j, NULL, "null");
    json_array_end(j);
}

static void put_members(json_t *j, const record_field_t *fields, record_variant_t variant, const char *kind);

static void put_field(json_t *j, const char *name, const record_field_t *f)
{
    json_object_begin(j, name);
    json_string(j, "description", f->help);
    switch (record_json_kind(f->type)) {
    case JSON_STRING:
        put_type(j, f, "string");
        if (f->type == RECORD_HEX) json_string(j, "pattern", "^[0-9A-Fa-f]+$");
        if (f->type == RECORD_TEXT && !f->words) json_int(j, "minLength", 1);
        break;
    case JSON_BOOL:
        put_type(j, f, "boolean");
        break;
    case JSON_OBJECT:
        put_type(j, f, "object");
        if (f->of) put_members(j, f->of, RECORD_ANY, NULL);
        break;
    case JSON_ARRAY:
        put_type(j, f, "array");
        if (!f->of) break;
        json_object_begin(j, "items");
        json_string(j, "type", "object");
        put_members(j, f->of, RECORD_ANY, NULL);
        json_object_end(j);
        break;
    default:
        if (f->type == RECORD_SCALAR) {
            json_raw(j, "type", "[\"number\",\"string\",\"boolean\",\"null\"]");
            break;
        }
        put_type(j, f, f->type == RECORD_REAL || f->type == RECORD_NUMBER ? "number" : "integer");
        if (f->type == RECORD_VERSION) json_int(j, "const", RECORD_SCHEMA);
        if (f->type == RECORD_POSITIVE) json_int(j, "minimum", 1);
        if (f->type == RECORD_COUNT || f->type == RECORD_REAL) json_int(j, "minimum", 0);
        if (f->type == RECORD_STEP_OR_NONE) json_int(j, "minimum", -1);
    }
    if (f->words) json_array_begin(j, "enum");
    for (const char *const *word = f->words; word && *word; word++) json_string(j, NULL, *word);
    if (f->words && f->nullable) json_string(j, NULL, NULL);
    if (f->words) json_array_end(j);
    json_object_end(j);
}

/* The properties of an object; of a record with its kind. */
static void put_members(json_t *j, const record_field_t *fields, record_variant_t variant, const char *kind)
{
    bool has_prefix = false;
    json_object_begin(j, "properties");
    if (kind) {
        json_object_begin(j, "record");
        json_string(j, "const", kind);
        json_object_end(j);
    }
    for (const record_field_t *f = fields; f->name; f++) {
        has_prefix |= f->is_prefix;
        if (record_has_field(f, variant)) put_field(j, f->name, f);
    }
    json_object_end(j);
    /* Named fields keep both rows; those of a prefix are the more lenient. */
    if (has_prefix) json_object_begin(j, "patternProperties");
    for (const record_field_t *f = fields; f->name; f++) {
        message_t pattern = {0};
        if (!f->is_prefix) continue;
        message_append(&pattern, "^%s", f->name);
        put_field(j, pattern.text, f);
    }
    if (has_prefix) json_object_end(j);
    json_array_begin(j, "required");
    for (const record_field_t *f = fields; f->name; f++)
        if (record_has_field(f, variant) && !f->optional) json_string(j, NULL, f->name);
    json_array_end(j);
    json_bool(j, "additionalProperties", false);
}

static err_t write_schema(FILE *out)
{
    json_t j = {0};
    json_object_begin(&j, NULL);
    json_string(&j, "$schema", "https://json-schema.org/draft/2020-12/schema");
    json_string(
        &j, "title",
        "A record of dptrain: a line of metrics.jsonl, job.jsonl or a file of dptrain bench, or a result");
    json_raw(&j, "required", "[\"record\"]");
    json_array_begin(&j, "anyOf");
    for (int k = 0; k < N_RECORD_KINDS; k++)
        for (int v = 0; v < (record_kinds[k].variants[0] ? 2 : 1); v++) {
            const record_row_t *row = &record_kinds[k];
            json_object_begin(&j, NULL);
            message_t title = {0};
            message_append(&title, "%s%s%s", row->name, row->variants[v] ? " " : "",
                           row->variants[v] ? row->variants[v] : "");
            json_string(&j, "title", title.text);
            json_string(&j, "description", row->help);
            json_string(&j, "type", "object");
            put_members(&j, row->fields, v ? RECORD_DETECTOR : RECORD_CLASSIFIER, row->name);
            json_object_end(&j);
        }
    json_array_end(&j);
    json_object_end(&j);
    const err_t err = j.status;
    if (err == ERR_OK) fprintf(out, "%s\n", j.text); /* the caller checks the stream for errors */
    json_free(&j);
    return err;
}

/* ---- Markdown ---- */
static void print_value(FILE *out, const record_field_t *f)
{
    const char *unit;
    figure_quantity(f->name, &unit);
    for (const char *const *word = f->words; word && *word; word++)
        fprintf(out, "%s`%s`", word == f->words ? "" : ", ", *word);
    if (!f->words) fputs(record_type_text(f->type), out);
    if (unit[0] && f->type == RECORD_REAL) fprintf(out, ", %s", unit);
    if (f->nullable && f->type != RECORD_SCALAR) fputs(", or null", out);
    if (f->optional) fputs("; optional", out);
}

/* Rows of an object inside follow its own, as `data.kind`; of the elements of an array, as `metrics[].name`. */
static void print_rows(FILE *out, const record_field_t *fields, const char *before,
                       const char *const *variants)
{
    for (const record_field_t *f = fields; f->name; f++) {
        fprintf(out, "| `%s%s%s` | ", before, f->name, f->is_prefix ? "…" : "");
        print_value(out, f);
        if (f->variant) fprintf(out, "; %s", variants[f->variant - 1]);
        fprintf(out, " | %s", f->help);
        if (f->was) fprintf(out, "; earlier `%s`", f->was);
        fputs(" |\n", out);
        if (!f->of) continue;
        message_t inside = {0};
        message_append(&inside, "%s%s%s.", before, f->name, f->type == RECORD_ARRAY ? "[]" : "");
        print_rows(out, f->of, inside.text, variants);
    }
}

err_t record_describe(FILE *out, bool as_markdown)
{
    if (!as_markdown) return write_schema(out);
    for (const record_row_t *row = record_kinds; row < record_kinds + N_RECORD_KINDS; row++) {
        fprintf(out, "%s### `%s`\n\n%s\n\n", row > record_kinds ? "\n" : "", row->name, row->help);
        fputs("| field | value | meaning |\n|---|---|---|\n", out);
        print_rows(out, row->fields, "", row->variants);
    }
    return ERR_OK;
}
