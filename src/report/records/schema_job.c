/* SPDX-License-Identifier: MIT */
/* Rules for the records of a supervised job, which scripts/launch/life.sh writes. */
#include <string.h>

#include "report/records/schema_rules.h"

/* Every record of a job. */
#define JOB_RULES                                                                                            \
    {TEXT("record")}, {TEXT("time")},                                                                        \
    {                                                                                                        \
        REAL("sec")                                                                                          \
    }
#define SUPERVISOR_RULES                                                                                     \
    {TEXT("job")}, {TEXT("place")}, {POSITIVE("pid")}, {COUNT("start_time"), .nullable = true},              \
    {                                                                                                        \
        TEXT("folder")                                                                                       \
    }

static const schema_rule_t start_rules[] = {
    JOB_RULES,
    {VERSION("schema")},
    SUPERVISOR_RULES,
    {ARRAY("command")},
    {COUNT("restarts")},
    {COUNT("min_ranks")},
    {COUNT("wait_hosts")},
    {COUNT("cool_down")},
    {COUNT("metrics_bytes")},
    {0},
};

static const schema_rule_t continue_rules[] = {JOB_RULES, SUPERVISOR_RULES, {0}};

static const schema_rule_t ranks_rules[] = {
    JOB_RULES,
    {POSITIVE("start")},
    {POSITIVE("ranks")},
    {ARRAY("hosts")},
    {.name = "newest_checkpoint", .kind = SCHEMA_STEP},
    {0},
};

static const schema_rule_t training_rules[] = {
    JOB_RULES,
    {POSITIVE("start")},
    {COUNT("first_step"), .nullable = true},
    {TEXT("resumed_from"), .nullable = true},
    {COUNT("steps_lost"), .nullable = true},
    {REAL("fault_to_step_sec"), .nullable = true},
    {0},
};

static const schema_rule_t fault_rules[] = {
    JOB_RULES,
    {POSITIVE("start")},
    {COUNT("code")},
    {TEXT("what")},
    {TEXT("host"), .nullable = true},
    {COUNT("rank"), .nullable = true},
    {TEXT("phase"), .nullable = true},
    {COUNT("steps"), .nullable = true},
    {REAL("noticed_sec")},
    {0},
};

static const schema_rule_t left_out_rules[] = {
    JOB_RULES, {TEXT("host")}, {TEXT("reason")}, {COUNT("cool_down_sec")}, {0},
};

static const schema_rule_t wait_rules[] = {JOB_RULES, {TEXT("reason")}, {COUNT("min_ranks")}, {0}};

static const schema_rule_t end_rules[] = {
    JOB_RULES,
    {COUNT("code")},
    {TEXT("reason")},
    {COUNT("restarts")},
    {COUNT("useful_steps")},
    {REAL("useful_sec"), .nullable = true},
    {COUNT("lost_steps")},
    {REAL("lost_sec")},
    {REAL("down_sec")},
    {REAL("wall_sec")},
    {REAL("goodput"), .nullable = true},
    {0},
};

static const struct {
    const char *kind;
    const schema_rule_t *rules;
} job_kinds[] = {
    {"job_start", start_rules},       {"job_continue", continue_rules}, {"job_ranks", ranks_rules},
    {"job_training", training_rules}, {"job_fault", fault_rules},       {"job_left_out", left_out_rules},
    {"job_wait", wait_rules},         {"job_end", end_rules},
};
enum { N_KINDS = sizeof job_kinds / sizeof *job_kinds };

static const schema_rule_t *rules_of(const char *kind)
{
    for (int i = 0; i < N_KINDS; i++)
        if (strcmp(kind, job_kinds[i].kind) == 0) return job_kinds[i].rules;
    return NULL;
}

static err_t check_job_record(const json_value_t *record)
{
    const char *kind = "";
    json_get_text(record, "record", &kind);
    return schema_check_object(record, rules_of(kind));
}

schema_checker_t schema_job_checker(const char *kind)
{
    return rules_of(kind) ? check_job_record : NULL;
}
