/* SPDX-License-Identifier: MIT */
/* Rules for the results of other commands: eval, predict, check, report compare, report history. */
#include <string.h>

#include "base/json.h"
#include "report/records/schema_rules.h"

/* Of classifiers and detectors. */
static const schema_rule_t eval_rules[] = {
    {TEXT("record")},
    {TEXT("checkpoint")},
    {FLAG("averaged")},
    {TEXT("model"), .optional = true},
    {TEXT("precision")},
    {TEXT("data")},
    {FLAG("matches_training_data"), .optional = true},
    {TEXT("split")},
    {COUNT("n_samples")},
    {COUNT("n_detections"), .optional = true},
    {REAL("loss"), .nullable = true, .optional = true},
    {REAL("accuracy"), .nullable = true, .optional = true},
    {REAL("top5"), .nullable = true, .optional = true},
    {REAL("map"), .nullable = true, .optional = true},
    {ARRAY("average_precision"), .optional = true},
    {ARRAY("confusion"), .optional = true},
    {OBJECT("bbox"), .optional = true},
    {OBJECT("segm"), .optional = true},
    {0},
};

static const schema_rule_t class_rules[] = {
    {COUNT("class")},
    {WORDS("name"), .optional = true},
    {REAL("probability"), .nullable = true},
    {0},
};

static const schema_rule_t object_rules[] = {
    {.name = "category_id", .kind = SCHEMA_INTEGER},
    {WORDS("name"), .optional = true},
    {REAL("score"), .nullable = true},
    {ARRAY("bbox")},
    {OBJECT("segmentation"), .optional = true},
    {0},
};

/* `classes` of a classifier, `objects` of a detector, `error` if the image could not be read. */
static const schema_rule_t prediction_rules[] = {
    {TEXT("record")},
    {TEXT("image")},
    {TEXT("error"), .optional = true},
    {ARRAY("classes"), .inside = class_rules, .optional = true},
    {POSITIVE("width"), .optional = true},
    {POSITIVE("height"), .optional = true},
    {ARRAY("objects"), .inside = object_rules, .optional = true},
    {0},
};

static const char *const statuses[] = {"ok", "skip", "warn", "fail", NULL};

static const schema_rule_t line_rules[] = {
    {TEXT("host"), .nullable = true},
    {COUNT("rank"), .nullable = true},
    {TEXT("check")},
    {WORDS("name")},
    {TEXT("status"), .words = statuses},
    {WORDS("found")},
    {.name = "value", .kind = SCHEMA_NUMBER, .nullable = true, .optional = true},
    {TEXT("advice"), .nullable = true},
    {0},
};

static const schema_rule_t check_rules[] = {
    {TEXT("record")},
    {TEXT("time")},
    {POSITIVE("hosts")},
    {POSITIVE("ranks")},
    {FLAG("ready")},
    {ARRAY("lines"), .inside = line_rules},
    {0},
};

static const schema_rule_t side_rules[] = {
    {ARRAY("files")},
    {COUNT("runs")},
    {COUNT("runs_excluded")},
    {TEXT("first"), .nullable = true},
    {TEXT("last"), .nullable = true},
    {TEXT("git"), .nullable = true},
    {0},
};

static const schema_rule_t comparison_rules[] = {
    {TEXT("record")},
    {VERSION("schema")},
    {TEXT("verdict")},
    {FLAG("decided")},
    {OBJECT("n")},
    {OBJECT("options")},
    {OBJECT("base"), .inside = side_rules},
    {OBJECT("new"), .inside = side_rules},
    {ARRAY("metrics")},
    {ARRAY("notes")},
    {0},
};

static const schema_rule_t group_rules[] = {
    {WORDS("hardware_id")},
    {WORDS("fabric_id")},
    {REAL("ranks"), .nullable = true},
    {REAL("threads"), .nullable = true},
    {REAL("days"), .nullable = true},
    {ARRAY("recordings")},
    {ARRAY("metrics")},
    {0},
};

static const schema_rule_t history_rules[] = {
    {TEXT("record")},    {VERSION("schema")},
    {OBJECT("options")}, {ARRAY("groups"), .inside = group_rules},
    {ARRAY("notes")},    {0},
};

static const struct {
    record_kind_t kind;
    const schema_rule_t *rules;
} result_rules[] = {
    {RECORD_EVAL, eval_rules},       {RECORD_PREDICTION, prediction_rules},
    {RECORD_CHECK, check_rules},     {RECORD_COMPARISON, comparison_rules},
    {RECORD_HISTORY, history_rules},
};

static const schema_rule_t *find_rules(const char *kind)
{
    for (size_t i = 0; i < sizeof result_rules / sizeof *result_rules; i++)
        if (strcmp(kind, record_names[result_rules[i].kind]) == 0) return result_rules[i].rules;
    return NULL;
}

static err_t check_result(const json_value_t *record)
{
    const char *kind = "";
    json_get_text(record, "record", &kind);
    return schema_check_object(record, find_rules(kind));
}

schema_checker_t schema_results_checker(const char *kind)
{
    return find_rules(kind) ? check_result : NULL;
}
