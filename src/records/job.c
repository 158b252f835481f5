/* SPDX-License-Identifier: MIT */
/* The records of a supervised job, which scripts/launch/life.sh writes. */
#include "records/tables.h"

/* Every record of a job. */
#define JOB_FIELDS                                                                                           \
    {TEXT("time")},                                                                                          \
    {                                                                                                        \
        REAL("sec")                                                                                          \
    }
#define SUPERVISOR_FIELDS                                                                                    \
    {TEXT("job")}, {TEXT("place")}, {POSITIVE("pid")}, {COUNT("start_time"), .nullable = true},              \
    {                                                                                                        \
        TEXT("folder")                                                                                       \
    }

const record_field_t record_job_start[] = {
    JOB_FIELDS,
    {VERSION("schema")},
    SUPERVISOR_FIELDS,
    {ARRAY("command")},
    {COUNT("restarts")},
    {COUNT("min_ranks")},
    {COUNT("wait_hosts")},
    {COUNT("cool_down")},
    {COUNT("metrics_bytes")},
    {0},
};

const record_field_t record_job_continue[] = {JOB_FIELDS, SUPERVISOR_FIELDS, {0}};

const record_field_t record_job_ranks[] = {
    JOB_FIELDS,
    {POSITIVE("start")},
    {POSITIVE("ranks")},
    {ARRAY("hosts")},
    {.name = "newest_checkpoint", .type = RECORD_STEP_OR_NONE},
    {0},
};

const record_field_t record_job_training[] = {
    JOB_FIELDS,
    {POSITIVE("start")},
    {COUNT("first_step"), .nullable = true},
    {TEXT("resumed_from"), .nullable = true},
    {COUNT("steps_lost"), .nullable = true},
    {REAL("fault_to_step_sec"), .nullable = true},
    {0},
};

const record_field_t record_job_fault[] = {
    JOB_FIELDS,
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

const record_field_t record_job_left_out[] = {
    JOB_FIELDS, {TEXT("host")}, {TEXT("reason")}, {COUNT("cool_down_sec")}, {0},
};

const record_field_t record_job_wait[] = {JOB_FIELDS, {TEXT("reason")}, {COUNT("min_ranks")}, {0}};

const record_field_t record_job_end[] = {
    JOB_FIELDS,
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
