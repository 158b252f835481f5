/* SPDX-License-Identifier: MIT */
/* Reads the records of a supervised job, job_*. A job_start begins a job, and the records of the same file
 * after it belong to it. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "report/records/job.h"
#include "report/records/records.h"

static err_t read_start(const report_input_t *in)
{
    report_t *report = in->report;
    report_job_t *job = NULL;
    bool newer = false;
    TRY(report_check_schema(in, &newer));
    if (newer) return ERR_OK;
    TRY(arena_new(&report->arena, sizeof *job, &job));
    *job = (report_job_t){.file = in->file_index,
                          .line = in->line,
                          .restarts = NAN,
                          .n_useful = NAN,
                          .n_lost = NAN,
                          .useful_sec = NAN,
                          .lost_sec = NAN,
                          .down_sec = NAN,
                          .wall_sec = NAN,
                          .goodput = NAN};
    TRY(report_copy_text(report, in->record, "job", &job->id));
    TRY(report_copy_text(report, in->record, "time", &job->time));
    TRY(intern_text(&report->words, "", &job->reason));
    if (report->last_job)
        report->last_job->next = job;
    else
        report->jobs = job;
    report->last_job = job;
    return ERR_OK;
}

/* The job that a record belongs to. */
static err_t find_job(const report_input_t *in, report_job_t **out)
{
    *out = in->report->last_job;
    if (!*out || (*out)->file != in->file_index) RAISE(ERR_DATA, "no \"job_start\" record before it");
    return ERR_OK;
}

/* Appends an event: `before`, then the text of the field, if the record has it. */
static err_t add_event(const report_input_t *in, const char *before, const char *field,
                       report_job_event_t **out)
{
    report_job_t *job;
    report_job_event_t *event = NULL;
    const char *text = "";
    char what[1024];
    TRY(find_job(in, &job));
    TRY(arena_new(&in->report->arena, sizeof *event, &event));
    *event = (report_job_event_t){.sec = report_get_real(in->record, "sec"),
                                  .rank = report_get_real(in->record, "rank"),
                                  .steps = report_get_real(in->record, "steps"),
                                  .ranks = NAN,
                                  .first_step = NAN,
                                  .n_lost = NAN,
                                  .down_sec = NAN};
    json_get_text(in->record, field, &text);
    snprintf(what, sizeof what, "%s%s", before, text);
    TRY(intern_text(&in->report->words, what, &event->what));
    TRY(report_copy_text(in->report, in->record, "host", &event->host));
    if (job->last)
        job->last->next = event;
    else
        job->events = event;
    job->last = event;
    *out = event;
    return ERR_OK;
}

static err_t read_continue(const report_input_t *in)
{
    report_job_event_t *event;
    TRY(add_event(in, "run.sh was killed, and started again", "", &event));
    in->report->last_job->fault = event;
    return ERR_OK;
}

static err_t read_fault(const report_input_t *in)
{
    report_job_event_t *event;
    TRY(add_event(in, "", "what", &event));
    event->sec = report_get_real(in->record, "noticed_sec");
    in->report->last_job->fault = event;
    return ERR_OK;
}

static err_t read_left_out(const report_input_t *in)
{
    report_job_event_t *event;
    return add_event(in, "left out: ", "reason", &event);
}

static err_t read_wait(const report_input_t *in)
{
    report_job_event_t *event;
    return add_event(in, "waited for hosts: ", "reason", &event);
}

static err_t read_ranks(const report_input_t *in)
{
    report_job_t *job;
    TRY(find_job(in, &job));
    if (job->fault) job->fault->ranks = report_get_real(in->record, "ranks");
    return ERR_OK;
}

static err_t read_training(const report_input_t *in)
{
    report_job_t *job;
    TRY(find_job(in, &job));
    if (!job->fault) return ERR_OK;
    job->fault->first_step = report_get_real(in->record, "first_step");
    job->fault->n_lost = report_get_real(in->record, "steps_lost");
    job->fault->down_sec = report_get_real(in->record, "fault_to_step_sec");
    return ERR_OK;
}

static err_t read_end(const report_input_t *in)
{
    report_job_t *job;
    TRY(find_job(in, &job));
    TRY(report_copy_text(in->report, in->record, "reason", &job->reason));
    job->restarts = report_get_real(in->record, "restarts");
    job->n_useful = report_get_real(in->record, "useful_steps");
    job->n_lost = report_get_real(in->record, "lost_steps");
    job->useful_sec = report_get_real(in->record, "useful_sec");
    job->lost_sec = report_get_real(in->record, "lost_sec");
    job->down_sec = report_get_real(in->record, "down_sec");
    job->wall_sec = report_get_real(in->record, "wall_sec");
    job->goodput = report_get_real(in->record, "goodput");
    return ERR_OK;
}

static const struct {
    const char *kind;
    record_reader_t read;
} kinds[] = {
    {"job_start", read_start},       {"job_continue", read_continue}, {"job_ranks", read_ranks},
    {"job_training", read_training}, {"job_fault", read_fault},       {"job_left_out", read_left_out},
    {"job_wait", read_wait},         {"job_end", read_end},
};

static err_t read_job_record(const report_input_t *in)
{
    const char *kind = "";
    json_get_text(in->record, "record", &kind);
    size_t i = 0;
    while (strcmp(kind, kinds[i].kind) != 0) i++;
    TRY(kinds[i].read(in));
    in->file->n_records++;
    return ERR_OK;
}

record_reader_t job_record_reader(const char *kind)
{
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (strcmp(kind, kinds[i].kind) == 0) return read_job_record;
    return NULL;
}
