/* SPDX-License-Identifier: MIT */
/* Checks one record of `dptrain bench` against docs/records.md: names, types, and the arithmetic between
 * fields. Reading for a report is more lenient (records_bench.c). */
#include "report/records/schema.h"

#include <ctype.h>
#include <math.h>
#include <string.h>

#include "base/json_read.h"
#include "report/records/report.h"

typedef enum rule {
    TEXT,
    WORDS, /* text that may be empty */
    HEX,
    ID,       /* HEX, or null */
    COUNT,    /* whole, from 0 */
    POSITIVE, /* whole, from 1 */
    REAL,     /* finite, from 0 */
    SPREAD,   /* the same, or null: one sample has none */
    OBJECT,
    ARRAY,
} rule_t;

typedef struct rule_of {
    const char *name;
    rule_t rule;
} rule_of_t;

static const rule_of_t head_rules[] = {
    {"record", TEXT},     {"schema", POSITIVE},  {"id", HEX},         {"time", TEXT},
    {"ranks", POSITIVE},  {"threads", POSITIVE}, {"options", OBJECT}, {"fingerprint", OBJECT},
    {"in_turn_with", ID}, {NULL, TEXT},
};
static const rule_of_t print_rules[] = {
    {"hardware_id", HEX}, {"fabric_id", HEX},   {"software_id", HEX}, {"hardware", OBJECT},
    {"fabric", OBJECT},   {"software", OBJECT}, {NULL, TEXT},
};
static const rule_of_t point_rules[] = {
    {"record", TEXT}, {"schema", POSITIVE}, {"run", HEX},        {"case", TEXT},
    {"test", TEXT},   {"key", OBJECT},      {"metrics", OBJECT}, {NULL, TEXT},
};
static const rule_of_t timing_rules[] = {
    {"unit", TEXT},         {"verdict", TEXT},  {"n", POSITIVE},         {"per_sample", POSITIVE},
    {"n_disturbed", COUNT}, {"loads", WORDS},   {"min", REAL},           {"p50", REAL},
    {"p95", REAL},          {"p99", REAL},      {"max", REAL},           {"mean", REAL},
    {"cv", SPREAD},         {"ci95", ARRAY},    {"slowest_rank", COUNT}, {"slowest_share", REAL},
    {"clock_sec", REAL},    {"batch_n", ARRAY}, {"samples", ARRAY},      {NULL, TEXT},
};
/* Only where an iteration has parts. */
static const rule_of_t part_rules[] = {
    {"data_samples", ARRAY},      {"forward_samples", ARRAY},   {"backward_samples", ARRAY},
    {"allreduce_samples", ARRAY}, {"optimizer_samples", ARRAY}, {NULL, TEXT},
};
static const rule_of_t end_rules[] = {
    {"record", TEXT},  {"schema", POSITIVE},    {"run", HEX}, {"why", TEXT}, {"n_points", COUNT},
    {"seconds", REAL}, {"recording_sec", REAL}, {NULL, TEXT},
};

static bool is_hex(const char *text)
{
    if (!text[0]) return false;
    for (; *text; text++)
        if (!isxdigit((unsigned char)*text)) return false;
    return true;
}

static bool keeps(const json_value_t *value, rule_t rule)
{
    int64_t count;
    double real;
    switch (rule) {
    case TEXT:
        return value->kind == JSON_STRING && value->text[0];
    case WORDS:
        return value->kind == JSON_STRING;
    case HEX:
        return value->kind == JSON_STRING && is_hex(value->text);
    case ID:
        return value->kind == JSON_NULL || (value->kind == JSON_STRING && is_hex(value->text));
    case COUNT:
        return json_as_int(value, &count) && count >= 0;
    case POSITIVE:
        return json_as_int(value, &count) && count >= 1;
    case REAL:
        return json_as_real(value, &real) && real >= 0;
    case SPREAD:
        return value->kind == JSON_NULL || (json_as_real(value, &real) && real >= 0);
    case OBJECT:
        return value->kind == JSON_OBJECT;
    case ARRAY:
        return value->kind == JSON_ARRAY;
    }
    return false;
}

static const rule_of_t *find_rule(const rule_of_t *rules, const char *name)
{
    while (rules->name && strcmp(rules->name, name) != 0) rules++;
    return rules->name ? rules : NULL;
}

static err_t check_fields(const json_value_t *object, const rule_of_t *rules)
{
    for (; rules->name; rules++) {
        const json_value_t *value = json_get(object, rules->name);
        if (!value) RAISE(ERR_DATA, "the record has no \"%s\"", rules->name);
        if (!keeps(value, rules->rule))
            RAISE(ERR_DATA, "the record's \"%s\" is not as documented", rules->name);
    }
    return ERR_OK;
}

/* Each name once, and known. */
static err_t check_names(const json_value_t *object, const rule_of_t *rules, const rule_of_t *more)
{
    for (const json_value_t *at = object->first; at; at = at->next) {
        if (json_get(object, at->key) != at) RAISE(ERR_DATA, "the record has \"%s\" twice", at->key);
        if (!find_rule(rules, at->key) &&
            !(more && (find_rule(more, at->key) || find_rule(part_rules, at->key))))
            RAISE(ERR_DATA, "the record has \"%s\", which is not documented", at->key);
    }
    return ERR_OK;
}

/* Values of a key and metrics: scalars, null where there is none, under names of their own. */
static err_t check_scalars(const json_value_t *record, const char *name)
{
    const json_value_t *object = json_get(record, name);
    for (const json_value_t *at = object->first; at; at = at->next) {
        double number;
        if (json_get(object, at->key) != at) RAISE(ERR_DATA, "\"%s\" has \"%s\" twice", name, at->key);
        if (at->kind == JSON_OBJECT || at->kind == JSON_ARRAY)
            RAISE(ERR_DATA, "\"%s\" in \"%s\" is no scalar", at->key, name);
        if (at->kind == JSON_NUMBER && !json_as_real(at, &number))
            RAISE(ERR_DATA, "\"%s\" in \"%s\" has no value", at->key, name);
    }
    return ERR_OK;
}

static double real_of(const json_value_t *record, const char *name)
{
    double value = NAN;
    json_get_real(record, name, &value);
    return value;
}

/* Fewer than 6 samples have no interval: its ends are null. */
static err_t check_interval(const json_value_t *record, int64_t n)
{
    const json_value_t *ci = json_get(record, "ci95");
    double low = NAN, high = NAN, p50 = real_of(record, "p50");
    if (ci->n != 2) RAISE(ERR_DATA, "\"ci95\" has not two ends");
    bool known = json_as_real(ci->first, &low) && json_as_real(ci->first->next, &high);
    bool null = ci->first->kind == JSON_NULL && ci->first->next->kind == JSON_NULL;
    if (n >= 6 ? !known : !known && !null) RAISE(ERR_DATA, "\"ci95\" is no interval");
    if (known && !(low <= p50 && p50 <= high)) RAISE(ERR_DATA, "\"p50\" is not in \"ci95\"");
    return ERR_OK;
}

/* n times; of parts also none. */
static err_t check_samples(const json_value_t *record, const char *name, int64_t n)
{
    const json_value_t *samples = json_get(record, name);
    if (!samples) return ERR_OK;
    if (samples->kind != JSON_ARRAY || samples->n != n)
        RAISE(ERR_DATA, "\"%s\" are %lld, not %lld", name, (long long)samples->n, (long long)n);
    for (const json_value_t *at = samples->first; at; at = at->next)
        if (!keeps(at, REAL)) RAISE(ERR_DATA, "one of \"%s\" is no time", name);
    return ERR_OK;
}

/* They add up to the samples. */
static err_t check_batches(const json_value_t *record, int64_t n)
{
    int64_t sum = 0, count;
    for (const json_value_t *at = json_get(record, "batch_n")->first; at; at = at->next) {
        if (!json_as_int(at, &count) || count < 0) RAISE(ERR_DATA, "one of \"batch_n\" is no count");
        sum += count;
    }
    if (sum != n) RAISE(ERR_DATA, "\"batch_n\" add up to %lld, not %lld", (long long)sum, (long long)n);
    return ERR_OK;
}

static err_t check_timing(const json_value_t *record)
{
    static const char *const ascending[] = {"min", "p50", "p95", "p99", "max"};
    const char *verdict = "";
    int64_t n = 0;
    TRY(check_fields(record, timing_rules));
    json_get_text(record, "verdict", &verdict);
    json_get_int(record, "n", &n);
    if (strcmp(verdict, "ok") != 0 && strcmp(verdict, "inconclusive") != 0 &&
        strcmp(verdict, "disturbed") != 0)
        RAISE(ERR_DATA, "there is no \"verdict\" %s", verdict);
    for (int i = 0; i + 1 < 5; i++)
        if (real_of(record, ascending[i]) > real_of(record, ascending[i + 1]))
            RAISE(ERR_DATA, "\"%s\" is above \"%s\"", ascending[i], ascending[i + 1]);
    if (real_of(record, "slowest_share") > 1) RAISE(ERR_DATA, "\"slowest_share\" is above 1");
    TRY(check_interval(record, n));
    TRY(check_samples(record, "samples", n));
    for (const rule_of_t *part = part_rules; part->name; part++) TRY(check_samples(record, part->name, n));
    return check_batches(record, n);
}

static err_t check_point(const json_value_t *record)
{
    TRY(check_fields(record, point_rules));
    TRY(check_names(record, point_rules, timing_rules));
    TRY(check_scalars(record, "key"));
    TRY(check_scalars(record, "metrics"));
    for (const rule_of_t *rule = timing_rules; rule->name; rule++)
        if (json_get(record, rule->name)) return check_timing(record);
    return ERR_OK;
}

static err_t check_kind(const json_value_t *record)
{
    const char *kind = "";
    int64_t schema = 0;
    if (record->kind != JSON_OBJECT || !json_get_text(record, "record", &kind))
        RAISE(ERR_DATA, "it is no record");
    json_get_int(record, "schema", &schema);
    if (schema != REPORT_SCHEMA) RAISE(ERR_DATA, "the record's \"schema\" is not %d", REPORT_SCHEMA);
    if (strcmp(kind, "bench") == 0) return check_point(record);
    if (strcmp(kind, "bench_run") == 0) {
        TRY(check_fields(record, head_rules));
        TRY(check_names(record, head_rules, NULL));
        TRY(check_fields(json_get(record, "fingerprint"), print_rules));
        return check_names(json_get(record, "fingerprint"), print_rules, NULL);
    }
    if (strcmp(kind, "bench_end") != 0) RAISE(ERR_DATA, "it is no record of dptrain bench, but \"%s\"", kind);
    const char *why = "";
    TRY(check_fields(record, end_rules));
    TRY(check_names(record, end_rules, NULL));
    json_get_text(record, "why", &why);
    if (strcmp(why, "finished") != 0 && strcmp(why, "interrupted") != 0 && strcmp(why, "failed") != 0)
        RAISE(ERR_DATA, "there is no \"why\" %s", why);
    return ERR_OK;
}

err_t report_check_record(const char *line, size_t n_bytes)
{
    json_reader_t reader = {0};
    const json_value_t *record = NULL;
    err_t err = json_read(&reader, line, n_bytes, &record);
    if (err == ERR_OK) err = check_kind(record);
    json_reader_free(&reader);
    return err;
}
