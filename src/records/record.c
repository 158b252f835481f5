/* SPDX-License-Identifier: MIT */
/* What follows the tables of records: writing, checking, renaming. */
#include "records/record.h"

#include <ctype.h>
#include <string.h>

#include "base/mem.h"

const record_row_t *record_find(const char *kind)
{
    for (int k = 0; k < N_RECORD_KINDS; k++)
        if (strcmp(kind, record_kinds[k].name) == 0) return &record_kinds[k];
    return NULL;
}

bool record_has_field(const record_field_t *f, record_variant_t variant)
{
    return !f->is_prefix && (!variant || !f->variant || f->variant == variant);
}

/* The row of a name in a record of a variant; NULL: none. */
static const record_field_t *find_field(const record_field_t *fields, record_variant_t variant,
                                        const char *name)
{
    for (const record_field_t *f = fields; f->name; f++)
        if (record_has_field(f, variant) && strcmp(f->name, name) == 0) return f;
    for (; fields->name; fields++)
        if (fields->is_prefix && strncmp(fields->name, name, strlen(fields->name)) == 0) return fields;
    return NULL;
}

const record_field_t *record_field(const record_row_t *row, const char *path)
{
    const record_field_t *fields = row->fields, *found = NULL;
    while (fields) {
        message_t name = {0};
        const size_t n = strcspn(path, ".");
        message_append(&name, "%.*s", (int)n, path);
        found = find_field(fields, RECORD_ANY, name.text);
        if (!found || !path[n]) return found;
        fields = found->of;
        path += n + 1;
    }
    return found;
}

/* ---- Writing ---- */
json_kind_t record_json_kind(record_type_t type)
{
    switch (type) {
    case RECORD_TEXT:
    case RECORD_WORDS:
    case RECORD_HEX:
        return JSON_STRING;
    case RECORD_FLAG:
        return JSON_BOOL;
    case RECORD_OBJECT:
        return JSON_OBJECT;
    case RECORD_ARRAY:
        return JSON_ARRAY;
    default:
        return JSON_NUMBER;
    }
}

/* A json_guard_t: `inside` is a table of fields. */
static const void *guard_value(const void *inside, const char *key, json_kind_t kind)
{
    if (!key) return inside; /* an element of an array of such objects */
    const record_field_t *field = find_field(inside, RECORD_ANY, key);
    const bool has_row = field && (kind == JSON_NULL || kind == record_json_kind(field->type) ||
                                   (field->type == RECORD_SCALAR && kind < JSON_ARRAY));
    if (has_row) return field->of;
    message_t wrong = {0};
    message_append(&wrong, "\"%s\" is in the table of its record, with a value of this type", key);
    err_assert_failed(wrong.text, __FILE__, __LINE__);
}

void record_begin(json_t *j, record_kind_t kind)
{
    json_object_begin(j, NULL);
    json_string(j, "record", record_kinds[kind].name);
    json_guard(j, guard_value, record_kinds[kind].fields);
}

/* ---- Names of earlier versions ---- */
static void rename_members(const json_value_t *object, const record_field_t *fields)
{
    for (const record_field_t *f = fields; f->name; f++) {
        bool inside = false;
        json_value_t *member =
            f->was ? (json_value_t *)json_get(object, f->was) : NULL; /* writable: in an arena */
        if (member) member->key = f->name;
        for (const record_field_t *of = f->of; of && of->name; of++) inside |= of->was != NULL;
        const json_value_t *value = inside ? json_get(object, f->name) : NULL;
        const bool is_array = value && value->kind == JSON_ARRAY;
        for (const json_value_t *at = is_array ? value->first : value; at; at = is_array ? at->next : NULL)
            rename_members(at, f->of);
    }
}

void record_rename(const json_value_t *record)
{
    const char *kind;
    const record_row_t *row = json_get_text(record, "record", &kind) ? record_find(kind) : NULL;
    if (row) rename_members(record, row->fields);
}

/* ---- Checking ---- */
const char *record_type_text(record_type_t type)
{
    static const char *const texts[N_RECORD_TYPES] = {
        [RECORD_VERSION] = "1",
        [RECORD_TEXT] = "a text",
        [RECORD_WORDS] = "a text, which may be empty",
        [RECORD_HEX] = "hexadecimal digits",
        [RECORD_FLAG] = "true or false",
        [RECORD_COUNT] = "an integer from 0",
        [RECORD_POSITIVE] = "an integer from 1",
        [RECORD_STEP_OR_NONE] = "an integer from -1",
        [RECORD_REAL] = "a number from 0",
        [RECORD_NUMBER] = "a number",
        [RECORD_INTEGER] = "an integer",
        [RECORD_SCALAR] = "a number, a text, true, false or null",
        [RECORD_OBJECT] = "an object",
        [RECORD_ARRAY] = "an array",
    };
    return texts[type];
}

static bool is_hex(const char *text)
{
    if (!text[0]) return false;
    for (; *text; text++)
        if (!isxdigit((unsigned char)*text)) return false;
    return true;
}

static bool is_one_of(const char *const *words, const char *text)
{
    if (!words) return text[0] != '\0';
    while (*words && strcmp(*words, text) != 0) words++;
    return *words != NULL;
}

static bool keeps_type(const json_value_t *value, const record_field_t *field)
{
    int64_t count;
    double real;
    switch (field->type) {
    case RECORD_VERSION:
        return json_as_int(value, &count) && count == RECORD_SCHEMA;
    case RECORD_TEXT:
        return value->kind == JSON_STRING && is_one_of(field->words, value->text);
    case RECORD_WORDS:
        return value->kind == JSON_STRING;
    case RECORD_HEX:
        return value->kind == JSON_STRING && is_hex(value->text);
    case RECORD_FLAG:
        return value->kind == JSON_BOOL;
    case RECORD_COUNT:
        return json_as_int(value, &count) && count >= 0;
    case RECORD_POSITIVE:
        return json_as_int(value, &count) && count >= 1;
    case RECORD_STEP_OR_NONE:
        return json_as_int(value, &count) && count >= -1;
    case RECORD_REAL:
        return json_as_real(value, &real) && real >= 0;
    case RECORD_NUMBER:
        return json_as_real(value, &real);
    case RECORD_INTEGER:
        return json_as_int(value, &count);
    case RECORD_SCALAR:
        return value->kind == JSON_NUMBER ? json_as_real(value, &real) : value->kind < JSON_ARRAY;
    case RECORD_OBJECT:
        return value->kind == JSON_OBJECT;
    case RECORD_ARRAY:
        return value->kind == JSON_ARRAY;
    case N_RECORD_TYPES:
        break;
    }
    return false;
}

static err_t check_repeats(const json_value_t *object)
{
    enum { FEW = 32 }; /* compared in pairs; objects of other writers may have a million members */
    intern_t names = {0};
    const char *repeated = NULL, *unused;
    err_t err = ERR_OK;
    for (const json_value_t *at = object->first; at && object->n <= FEW && !repeated; at = at->next)
        if (json_get(object, at->key) != at) repeated = at->key;
    for (const json_value_t *at = object->first; at && object->n > FEW && !repeated; at = at->next) {
        const size_t n_before = names.n;
        TRY_OUT(err, intern_text(&names, at->key, &unused));
        if (names.n == n_before) repeated = at->key;
    }
    if (repeated) RAISE_OUT(err, ERR_DATA, "\"%s\" appears twice", repeated);
out:
    intern_free(&names);
    return err;
}

static err_t check_object(const json_value_t *object, const record_field_t *fields, record_variant_t variant);

static err_t check_value(const json_value_t *value, const record_field_t *field)
{
    err_t err = ERR_OK;
    if (value->kind == JSON_NULL && field->nullable) return ERR_OK;
    if (!keeps_type(value, field)) {
        message_t words = {0};
        for (const char *const *word = field->words; word && *word; word++)
            message_append(&words, "%s%s", words.n ? ", " : "one of: ", *word);
        RAISE(ERR_DATA, "invalid value of \"%s\": expected %s%s", value->key,
              words.n ? words.text : record_type_text(field->type), field->nullable ? ", or null" : "");
    }
    if (!field->of) return ERR_OK;
    if (field->type == RECORD_OBJECT) err = check_object(value, field->of, RECORD_ANY);
    for (const json_value_t *at = value->first; field->type == RECORD_ARRAY && at && err == ERR_OK;
         at = at->next)
        err = check_object(at, field->of, RECORD_ANY);
    return err == ERR_OK ? ERR_OK : err_context(err, "\"%s\"", value->key);
}

/* As find_field. *next: the row after that of the member before, which is usually that of this one. */
static const record_field_t *find_next(const record_field_t *fields, record_variant_t variant,
                                       const char *name, const record_field_t **next)
{
    const record_field_t *at = *next;
    const bool is_next = at->name && record_has_field(at, variant) && strcmp(at->name, name) == 0;
    const record_field_t *found = is_next ? at : find_field(fields, variant, name);
    if (found) *next = found + 1;
    return found;
}

/* variant: that of a record; RECORD_ANY: of an object inside. */
static err_t check_object(const json_value_t *object, const record_field_t *fields, record_variant_t variant)
{
    const record_field_t *next = fields;
    if (object->kind != JSON_OBJECT) RAISE(ERR_DATA, "an element of the array is not an object");
    TRY(check_repeats(object));
    for (const json_value_t *at = object->first; at; at = at->next) {
        if (variant && strcmp(at->key, "record") == 0) continue;
        const record_field_t *field = find_next(fields, variant, at->key, &next);
        if (!field) RAISE(ERR_DATA, "unknown field \"%s\"", at->key);
        TRY(check_value(at, field));
    }
    for (const record_field_t *f = fields; f->name; f++)
        if (record_has_field(f, variant) && !f->optional && !json_get(object, f->name))
            RAISE(ERR_DATA, "\"%s\" is missing", f->name);
    return ERR_OK;
}

err_t record_check(const json_value_t *record)
{
    const char *kind;
    if (record->kind != JSON_OBJECT) RAISE(ERR_DATA, "not a record: not a JSON object");
    if (!json_get_text(record, "record", &kind)) RAISE(ERR_DATA, "not a record: \"record\" is missing");
    const record_row_t *row = record_find(kind);
    if (!row) RAISE(ERR_DATA, "unknown kind of record, \"%.40s\"", kind);
    record_variant_t variant = RECORD_CLASSIFIER;
    const record_field_t *next = row->fields;
    for (const json_value_t *at = row->variants[0] ? record->first : NULL; at; at = at->next) {
        const record_field_t *field = find_next(row->fields, RECORD_ANY, at->key, &next);
        if (field && field->variant == RECORD_DETECTOR) variant = RECORD_DETECTOR;
    }
    err_t err = check_object(record, row->fields, variant);
    if (err == ERR_OK && row->check) err = row->check(record);
    return err == ERR_OK ? ERR_OK : err_context(err, "%s", kind);
}
