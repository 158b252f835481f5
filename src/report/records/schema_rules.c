/* SPDX-License-Identifier: MIT */
/* Checks objects of records against tables of rules. */
#include "report/records/schema_rules.h"

#include <ctype.h>
#include <string.h>

#include "base/mem.h"
#include "report/records/report.h"

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

bool schema_keeps(const json_value_t *value, const schema_rule_t *rule)
{
    int64_t count;
    double real;
    if (value->kind == JSON_NULL) return rule->nullable;
    switch (rule->kind) {
    case SCHEMA_VERSION:
        return json_as_int(value, &count) && count == REPORT_SCHEMA;
    case SCHEMA_TEXT:
        return value->kind == JSON_STRING && is_one_of(rule->words, value->text);
    case SCHEMA_WORDS:
        return value->kind == JSON_STRING;
    case SCHEMA_HEX:
        return value->kind == JSON_STRING && is_hex(value->text);
    case SCHEMA_FLAG:
        return value->kind == JSON_BOOL;
    case SCHEMA_COUNT:
        return json_as_int(value, &count) && count >= 0;
    case SCHEMA_POSITIVE:
        return json_as_int(value, &count) && count >= 1;
    case SCHEMA_STEP:
        return json_as_int(value, &count) && count >= -1;
    case SCHEMA_REAL:
        return json_as_real(value, &real) && real >= 0;
    case SCHEMA_NUMBER:
        return json_as_real(value, &real);
    case SCHEMA_INTEGER:
        return json_as_int(value, &count);
    case SCHEMA_OBJECT:
        return value->kind == JSON_OBJECT;
    case SCHEMA_ARRAY:
        return value->kind == JSON_ARRAY;
    }
    return false;
}

const schema_rule_t *schema_find(const schema_rule_t *rules, const char *name)
{
    for (const schema_rule_t *rule = rules; rule->name; rule++)
        if (!rule->is_prefix && strcmp(rule->name, name) == 0) return rule;
    for (; rules->name; rules++)
        if (rules->is_prefix && strncmp(rules->name, name, strlen(rules->name)) == 0) return rules;
    return NULL;
}

err_t schema_check_repeats(const json_value_t *object)
{
    enum {
        FEW = 32
    }; /* records of a run, without a table; objects of other writers may have a million members */
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

static err_t check_inside(const json_value_t *value, const schema_rule_t *rule)
{
    err_t err = ERR_OK;
    if (!rule->inside || value->kind == JSON_NULL) return ERR_OK;
    if (rule->kind == SCHEMA_OBJECT) err = schema_check_object(value, rule->inside);
    for (const json_value_t *at = value->first; rule->kind == SCHEMA_ARRAY && at && err == ERR_OK;
         at = at->next)
        err = schema_check_object(at, rule->inside);
    return err == ERR_OK ? ERR_OK : err_context(err, "\"%s\"", rule->name);
}

err_t schema_check_object(const json_value_t *object, const schema_rule_t *rules)
{
    if (object->kind != JSON_OBJECT) RAISE(ERR_DATA, "an element of the array is not an object");
    TRY(schema_check_repeats(object));
    for (const json_value_t *at = object->first; at; at = at->next) {
        const schema_rule_t *rule = schema_find(rules, at->key);
        if (!rule) RAISE(ERR_DATA, "unknown field \"%s\"", at->key);
        if (rule->is_prefix && !schema_keeps(at, rule)) RAISE(ERR_DATA, "invalid value of \"%s\"", at->key);
    }
    for (const schema_rule_t *rule = rules; rule->name; rule++) {
        if (rule->is_prefix) continue;
        const json_value_t *value = json_get(object, rule->name);
        if (!value && rule->optional) continue;
        if (!value) RAISE(ERR_DATA, "\"%s\" is missing", rule->name);
        if (!schema_keeps(value, rule)) RAISE(ERR_DATA, "invalid value of \"%s\"", rule->name);
        TRY(check_inside(value, rule));
    }
    return ERR_OK;
}
