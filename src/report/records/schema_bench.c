/* SPDX-License-Identifier: MIT */
/* Rules for the records of dptrain bench. */
#include <math.h>
#include <string.h>

#include "report/records/schema_rules.h"

/* interleaved_with, clock_sec and batch_n are optional: early recordings of this schema lack them. */
static const schema_rule_t fingerprint_rules[] = {
    {HEX("hardware_id")},
    {HEX("fabric_id")},
    {HEX("software_id")},
    {OBJECT("hardware")},
    {OBJECT("fabric")},
    {OBJECT("software")},
    {0},
};

static const schema_rule_t head_rules[] = {
    {TEXT("record")},
    {VERSION("schema")},
    {HEX("id")},
    {TEXT("time")},
    {POSITIVE("ranks")},
    {POSITIVE("threads")},
    {OBJECT("options")},
    {OBJECT("fingerprint"), .inside = fingerprint_rules},
    {HEX("interleaved_with"), .nullable = true, .optional = true},
    {0},
};

static const char *const verdicts[] = {"ok", "inconclusive", "disturbed", NULL};
static const char *const ends[] = {"finished", "interrupted", "failed", NULL};

#define POINT_RULES                                                                                          \
    {TEXT("record")}, {VERSION("schema")}, {HEX("run")}, {TEXT("case")}, {TEXT("test")},                     \
    {                                                                                                        \
        OBJECT("key")                                                                                        \
    }

static const schema_rule_t point_rules[] = {POINT_RULES, {OBJECT("metrics")}, {0}};

static const schema_rule_t timed_point_rules[] = {
    POINT_RULES,
    {OBJECT("metrics")},
    {TEXT("unit")},
    {TEXT("verdict"), .words = verdicts},
    {POSITIVE("n")},
    {POSITIVE("per_sample")},
    {COUNT("n_disturbed")},
    {WORDS("disturbances")},
    {REAL("min")},
    {REAL("p50")},
    {REAL("p95")},
    {REAL("p99")},
    {REAL("max")},
    {REAL("mean")},
    {REAL("cv"), .nullable = true}, /* of a single sample */
    {ARRAY("ci95")},
    {COUNT("slowest_rank")},
    {REAL("slowest_share")},
    {REAL("clock_sec"), .optional = true},
    {ARRAY("batch_n"), .optional = true},
    {ARRAY("samples")},
    {ARRAY("data_samples"), .optional = true},
    {ARRAY("forward_samples"), .optional = true},
    {ARRAY("backward_samples"), .optional = true},
    {ARRAY("allreduce_samples"), .optional = true},
    {ARRAY("optimizer_samples"), .optional = true},
    {0},
};

static const schema_rule_t end_rules[] = {
    {TEXT("record")},
    {VERSION("schema")},
    {HEX("run")},
    {TEXT("reason"), .words = ends},
    {COUNT("n_points")},
    {REAL("seconds")},
    {REAL("recording_sec")},
    {0},
};

/* Members of key and metrics are scalars or null, each name once. */
static err_t check_scalars(const json_value_t *record, const char *name)
{
    const json_value_t *object = json_get(record, name);
    err_t err = schema_check_repeats(object);
    if (err != ERR_OK) return err_context(err, "\"%s\"", name);
    for (const json_value_t *at = object->first; at; at = at->next) {
        double number;
        if (at->kind == JSON_OBJECT || at->kind == JSON_ARRAY)
            RAISE(ERR_DATA, "\"%s\" in \"%s\" is not a scalar", at->key, name);
        if (at->kind == JSON_NUMBER && !json_as_real(at, &number))
            RAISE(ERR_DATA, "\"%s\" in \"%s\" is not a finite number", at->key, name);
    }
    return ERR_OK;
}

static double real_of(const json_value_t *record, const char *name)
{
    double value = NAN;
    json_get_real(record, name, &value);
    return value;
}

/* Below 6 samples both ends are null. */
static err_t check_interval(const json_value_t *record, int64_t n)
{
    const json_value_t *ci = json_get(record, "ci95");
    double low = NAN, high = NAN, p50 = real_of(record, "p50");
    if (ci->n != 2) RAISE(ERR_DATA, "\"ci95\" does not have two values");
    bool known = json_as_real(ci->first, &low) && json_as_real(ci->first->next, &high);
    bool null = ci->first->kind == JSON_NULL && ci->first->next->kind == JSON_NULL;
    if (n >= 6 ? !known : !known && !null) RAISE(ERR_DATA, "\"ci95\" is not an interval");
    if (known && !(low <= p50 && p50 <= high)) RAISE(ERR_DATA, "\"p50\" is outside \"ci95\"");
    return ERR_OK;
}

/* n times each; parts are optional. */
static err_t check_samples(const json_value_t *record, const char *name, int64_t n)
{
    static const schema_rule_t time = {.kind = SCHEMA_REAL};
    const json_value_t *samples = json_get(record, name);
    if (!samples) return ERR_OK;
    if (samples->n != n)
        RAISE(ERR_DATA, "\"%s\" has %lld values, expected %lld", name, (long long)samples->n, (long long)n);
    for (const json_value_t *at = samples->first; at; at = at->next)
        if (!schema_keeps(at, &time)) RAISE(ERR_DATA, "\"%s\" has a value that is not a time", name);
    return ERR_OK;
}

/* The batches must add up to the samples. */
static err_t check_batches(const json_value_t *record, int64_t n)
{
    int64_t sum = 0, count;
    if (!json_get(record, "batch_n")) return ERR_OK;
    for (const json_value_t *at = json_get(record, "batch_n")->first; at; at = at->next) {
        if (!json_as_int(at, &count) || count < 0)
            RAISE(ERR_DATA, "\"batch_n\" has a value that is not a "
                            "count");
        sum += count;
    }
    if (sum != n) RAISE(ERR_DATA, "\"batch_n\" sums to %lld, expected %lld", (long long)sum, (long long)n);
    return ERR_OK;
}

static err_t check_timing(const json_value_t *record)
{
    static const char *const ascending[] = {"min", "p50", "p95", "p99", "max"};
    static const char *const parts[] = {"samples",          "data_samples",      "forward_samples",
                                        "backward_samples", "allreduce_samples", "optimizer_samples"};
    int64_t n = 0;
    json_get_int(record, "n", &n);
    for (int i = 0; i + 1 < 5; i++)
        if (real_of(record, ascending[i]) > real_of(record, ascending[i + 1]))
            RAISE(ERR_DATA, "\"%s\" is above \"%s\"", ascending[i], ascending[i + 1]);
    if (real_of(record, "slowest_share") > 1) RAISE(ERR_DATA, "\"slowest_share\" is above 1");
    TRY(check_interval(record, n));
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) TRY(check_samples(record, parts[i], n));
    return check_batches(record, n);
}

static err_t check_point(const json_value_t *record)
{
    bool timed = false;
    for (const json_value_t *at = record->first; at; at = at->next)
        timed |= !schema_find(point_rules, at->key) && schema_find(timed_point_rules, at->key);
    TRY(schema_check_object(record, timed ? timed_point_rules : point_rules));
    TRY(check_scalars(record, "key"));
    TRY(check_scalars(record, "metrics"));
    return timed ? check_timing(record) : ERR_OK;
}

static err_t check_head(const json_value_t *record)
{
    return schema_check_object(record, head_rules);
}

static err_t check_end(const json_value_t *record)
{
    return schema_check_object(record, end_rules);
}

schema_checker_t schema_bench_checker(const char *kind)
{
    if (strcmp(kind, "bench") == 0) return check_point;
    if (strcmp(kind, "bench_run") == 0) return check_head;
    if (strcmp(kind, "bench_end") == 0) return check_end;
    return NULL;
}
