/* SPDX-License-Identifier: MIT */
/* The life of a supervised job, as scripts/run.sh --restarts records it in job.jsonl (docs/records.md). */
#ifndef REPORT_RECORDS_JOB_H
#define REPORT_RECORDS_JOB_H

#include <stdint.h>

#include "report/records/report.h"
#include "text/table.h"

/* A fault and what followed, a host that was left out, or a wait for hosts. */
typedef struct report_job_event report_job_event_t;
struct report_job_event {
    const char *what, *host;   /* interned; host "": none */
    double sec, rank, steps;   /* since the job's start; of the rank at fault; done. NAN: unknown, as below */
    double ranks;              /* of the next start */
    double first_step, n_lost; /* where it went on; steps computed again */
    double down_sec;           /* from the fault to the first step */
    report_job_event_t *next;
};

typedef struct report_job report_job_t;
struct report_job {
    const char *id, *time, *reason; /* interned; reason "": no end record */
    int file;
    int64_t line; /* of its first record */
    double restarts, n_useful, n_lost, useful_sec, lost_sec, down_sec, wall_sec, goodput;
    report_job_event_t *events, *last;
    report_job_event_t *fault; /* the last one: later records tell what followed */
    report_job_t *next;
};

/* "finished", or that there is no end record. */
const char *report_job_end(const report_job_t *job);

/* "91.2 %: 10:12 of steps that were kept, in 11:11"; "-" without an end record. */
err_t report_job_goodput(arena_t *arena, const report_job_t *job, const char **out);

/* "2, steps computed again: 41 in 0.52 s, without training: 9.3 s" */
err_t report_job_restarts(arena_t *arena, const report_job_t *job, const char **out);

/* A row for each event; none if nothing happened. Cells are in the arena. */
err_t report_job_table(arena_t *arena, const report_job_t *job, table_t *out);

#endif
