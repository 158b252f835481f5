/* SPDX-License-Identifier: MIT */
/* The records of a supervised job, which src/launch/life.c writes. */
#include "records/tables.h"

/* Every record of a job. */
#define JOB_FIELDS                                                                                           \
    {TEXT("time", "UTC")},                                                                                   \
    {                                                                                                        \
        REAL("sec", "since the job's first record")                                                          \
    }
#define SUPERVISOR_FIELDS                                                                                    \
    {TEXT("job", "id of the job")}, {TEXT("place", "host, boot and space of process ids")},                  \
        {POSITIVE("pid", "process id of run.sh")},                                                           \
    {                                                                                                        \
        COUNT("start_time", "of that process, in clock ticks"), .nullable = true                             \
    }

const record_field_t record_job_start[] = {
    JOB_FIELDS,
    {VERSION("schema", "newer ones are skipped")},
    SUPERVISOR_FIELDS,
    {ARRAY("command", "what was started")},
    {COUNT("restarts", "restarts at most")},
    {COUNT("min_ranks", "ranks to continue with, at least")},
    {COUNT("wait_hosts", "seconds to wait for hosts")},
    {COUNT("cool_down", "seconds for which a host is left out")},
    {COUNT("metrics_bytes", "length of `metrics.jsonl` before")},
    {0},
};

const record_field_t record_job_continue[] = {JOB_FIELDS, SUPERVISOR_FIELDS, {0}};

const record_field_t record_job_ranks[] = {
    JOB_FIELDS,
    {POSITIVE("start", "number of the start, from 1")},
    {POSITIVE("ranks", "ranks that are started")},
    {ARRAY("hosts", "hosts that they are on")},
    {.name = "newest_checkpoint", .type = RECORD_STEP_OR_NONE, .help = "step of the newest one; -1: none"},
    {0},
};

const record_field_t record_job_training[] = {
    JOB_FIELDS,
    {POSITIVE("start", "number of the start, from 1")},
    {COUNT("first_step", "first step of this start"), .nullable = true},
    {TEXT("resumed_from", "checkpoint"), .nullable = true},
    {COUNT("steps_lost", "steps computed again"), .nullable = true},
    {REAL(
         "fault_to_step_sec",
         "from the first sign of the fault; the time until then is `--timeout`, or up to 10 s for a lost host"),
     .nullable = true},
    {0},
};

const record_field_t record_job_fault[] = {
    JOB_FIELDS,
    {POSITIVE("start", "number of the start, from 1")},
    {COUNT("code", "exit code")},
    {TEXT("what", "what happened")},
    {TEXT("host", "null: unknown"), .nullable = true},
    {COUNT("rank", "rank at fault"), .nullable = true},
    {TEXT("phase", "phase in which it was"), .nullable = true},
    {COUNT("steps", "steps done"), .nullable = true},
    {REAL("noticed_sec", "`sec` of its first sign")},
    {0},
};

const record_field_t record_job_left_out[] = {
    JOB_FIELDS,
    {TEXT("host", "host that is left out")},
    {TEXT("reason", "why")},
    {COUNT("cool_down_sec", "time for which it is left out")},
    {0},
};

const record_field_t record_job_wait[] = {
    JOB_FIELDS, {TEXT("reason", "why")}, {COUNT("min_ranks", "ranks that it waits for")}, {0}};

const record_field_t record_job_end[] = {
    JOB_FIELDS,
    {COUNT("code", "exit code")},
    {TEXT("reason", "how it ended")},
    {COUNT("restarts", "restarts that were needed")},
    {COUNT("useful_steps", "steps whose results were kept")},
    {REAL("useful_sec", "their `step_sec`"), .nullable = true},
    {COUNT("lost_steps", "the other steps")},
    {REAL("lost_sec", "their `step_sec`")},
    {REAL("down_sec", "sum of `fault_to_step_sec`")},
    {REAL("wall_sec", "duration of the job")},
    {REAL("goodput", "`useful_sec` / `wall_sec`"), .nullable = true},
    {0},
};
