/* SPDX-License-Identifier: MIT */
/* Rules for the record of a forecast. */
#include <string.h>

#include "report/records/schema_rules.h"

static const char *const origins[] = {"measured", "given", "assumed", NULL};

static const schema_rule_t input_rules[] = {
    {TEXT("name")}, {TEXT("origin"), .words = origins}, {TEXT("from")}, {TEXT("value")}, {0},
};

static const schema_rule_t point_rules[] = {
    {POSITIVE("hosts")},
    {POSITIVE("ranks")},
    {REAL("gbps"), .nullable = true},
    {REAL("step_sec")},
    {REAL("step_low_sec")},
    {REAL("step_high_sec")},
    {REAL("images_per_sec")},
    {REAL("efficiency")},
    {REAL("efficiency_low")},
    {REAL("efficiency_high")},
    {TEXT("limit")},
    {REAL("compute_sec")},
    {REAL("slowest_rank_sec")},
    {REAL("latency_sec")},
    {REAL("bandwidth_sec")},
    {ARRAY("reasons")},
    {REAL("job_sec"), .optional = true},
    {REAL("job_efficiency"), .optional = true},
    {0},
};

static const schema_rule_t forecast_rules[] = {
    {TEXT("record")},
    {VERSION("schema")},
    {TEXT("model")},
    {REAL("batch")},
    {ARRAY("inputs"), .inside = input_rules},
    {ARRAY("points"), .inside = point_rules},
    {ARRAY("notes")},
    {0},
};

static err_t check_forecast(const json_value_t *record)
{
    return schema_check_object(record, forecast_rules);
}

schema_checker_t schema_forecast_checker(const char *kind)
{
    return strcmp(kind, "forecast") == 0 ? check_forecast : NULL;
}
