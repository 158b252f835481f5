/* SPDX-License-Identifier: MIT */
/* A supervised job: its records, job_*, of which job_start begins a job and the records of the same file after it belong to it;
 * and what is shown of it. */
#include "report/records/job.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "report/records/records.h"
#include "text/figure.h"

/* ---- Records ---- */
static const record_place_t start_places[] = {
    PLACE(report_job_t, id, "job"),
    PLACE(report_job_t, time, "time"),
    {0},
};

const record_place_t job_end_places[] = {
    PLACE(report_job_t, reason, "reason"),         PLACE(report_job_t, restarts, "restarts"),
    PLACE(report_job_t, n_useful, "useful_steps"), PLACE(report_job_t, useful_sec, "useful_sec"),
    PLACE(report_job_t, n_lost, "lost_steps"),     PLACE(report_job_t, lost_sec, "lost_sec"),
    PLACE(report_job_t, down_sec, "down_sec"),     PLACE(report_job_t, wall_sec, "wall_sec"),
    PLACE(report_job_t, goodput, "goodput"),       {0},
};

static const record_place_t event_places[] = {PLACE(report_job_event_t, sec, "sec"), {0}};
static const record_place_t left_out_places[] = {
    PLACE(report_job_event_t, sec, "sec"), PLACE(report_job_event_t, host, "host"), {0}};
static const record_place_t fault_places[] = {
    PLACE(report_job_event_t, sec, "noticed_sec"),
    PLACE(report_job_event_t, host, "host"),
    PLACE(report_job_event_t, rank, "rank"),
    PLACE(report_job_event_t, steps, "steps"),
    {0},
};
static const record_place_t ranks_places[] = {PLACE(report_job_event_t, ranks, "ranks"), {0}};
static const record_place_t training_places[] = {
    PLACE(report_job_event_t, first_step, "first_step"),
    PLACE(report_job_event_t, n_lost, "steps_lost"),
    PLACE(report_job_event_t, down_sec, "fault_to_step_sec"),
    {0},
};

err_t read_job_start(const report_input_t *in)
{
    report_t *report = in->report;
    report_job_t *job = NULL;
    TRY(arena_new(&report->arena, sizeof *job, &job));
    *job = (report_job_t){.file = in->file_index, .line = in->line};
    TRY(report_fill(in, start_places, job));
    TRY(report_fill_none(in, job_end_places, job));
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

/* A fault, or what else happened; the text is that of a field, if there is one. */
err_t read_job_event(const report_input_t *in)
{
    static const struct {
        const char *before, *field;
        const record_place_t *places;
        bool is_fault;
    } kinds[N_RECORD_KINDS] = {
        [RECORD_JOB_CONTINUE] = {"run.sh was killed, and started again", "", event_places, true},
        [RECORD_JOB_FAULT] = {"", "what", fault_places, true},
        [RECORD_JOB_LEFT_OUT] = {"left out: ", "reason", left_out_places},
        [RECORD_JOB_WAIT] = {"waited for hosts: ", "reason", event_places},
    };
    report_job_t *job;
    report_job_event_t *event = NULL;
    const char *text = "";
    char what[1024];
    TRY(find_job(in, &job));
    TRY(arena_new(&in->report->arena, sizeof *event, &event));
    *event = (report_job_event_t){0};
    TRY(report_fill_none(in, fault_places, event));
    TRY(report_fill_none(in, ranks_places, event));
    TRY(report_fill_none(in, training_places, event));
    TRY(report_fill(in, kinds[in->kind].places, event));
    json_get_text(in->record, kinds[in->kind].field, &text);
    snprintf(what, sizeof what, "%s%s", kinds[in->kind].before, text);
    TRY(intern_text(&in->report->words, what, &event->what));
    if (job->last)
        job->last->next = event;
    else
        job->events = event;
    job->last = event;
    if (kinds[in->kind].is_fault) job->fault = event;
    return ERR_OK;
}

err_t read_job_ranks(const report_input_t *in)
{
    report_job_t *job;
    TRY(find_job(in, &job));
    return job->fault ? report_fill(in, ranks_places, job->fault) : ERR_OK;
}

err_t read_job_training(const report_input_t *in)
{
    report_job_t *job;
    TRY(find_job(in, &job));
    return job->fault ? report_fill(in, training_places, job->fault) : ERR_OK;
}

err_t read_job_end(const report_input_t *in)
{
    report_job_t *job;
    TRY(find_job(in, &job));
    return report_fill(in, job_end_places, job);
}

/* ---- Texts and table, for all output formats ---- */
const char *report_job_end(const report_job_t *job)
{
    return job->reason[0] ? job->reason : "no end record: still running or killed";
}

err_t report_job_goodput(arena_t *arena, const report_job_t *job, const char **out)
{
    *out = "-";
    if (!isfinite(job->goodput)) return ERR_OK;
    return arena_format(arena, out, "%s: %s of steps that were kept, in %s",
                        figure_percent(job->goodput).text, figure_duration(job->useful_sec).text,
                        figure_duration(job->wall_sec).text);
}

err_t report_job_restarts(arena_t *arena, const report_job_t *job, const char **out)
{
    *out = "-";
    if (!isfinite(job->restarts)) return ERR_OK;
    return arena_format(arena, out, "%s, steps computed again: %s in %s, without training: %s",
                        figure_number(job->restarts).text, figure_number(job->n_lost).text,
                        figure_time(job->lost_sec).text, figure_time(job->down_sec).text);
}

/* "" for NAN. */
static err_t number_cell(arena_t *arena, double value, const char **cell)
{
    *cell = "";
    return isfinite(value) ? arena_format(arena, cell, "%s", figure_number(value).text) : ERR_OK;
}

static err_t put_event(arena_t *arena, const report_job_event_t *event, const char **cell)
{
    *cell = "";
    if (isfinite(event->sec)) TRY(arena_format(arena, cell, "%s", figure_duration(event->sec).text));
    *++cell = event->host;
    TRY(number_cell(arena, event->rank, ++cell));
    TRY(number_cell(arena, event->steps, ++cell));
    TRY(number_cell(arena, event->ranks, ++cell));
    TRY(number_cell(arena, event->first_step, ++cell));
    TRY(number_cell(arena, event->n_lost, ++cell));
    *++cell = "";
    if (isfinite(event->down_sec)) TRY(arena_format(arena, cell, "%s", figure_time(event->down_sec).text));
    *++cell = event->what;
    return ERR_OK;
}

err_t report_job_table(arena_t *arena, const report_job_t *job, table_t *out)
{
    enum { COLUMNS = 9 };
    *out = (table_t){.title = "what happened",
                     .caption = "at: since the start; then ranks, from step: of the next start",
                     .columns = {{"at", false},
                                 {"host", true},
                                 {"rank", false},
                                 {"steps done", false},
                                 {"then ranks", false},
                                 {"from step", false},
                                 {"lost", false},
                                 {"training after", false},
                                 {"what", true}},
                     .n_columns = COLUMNS};
    for (const report_job_event_t *event = job->events; event; event = event->next) out->n_rows++;
    TRY(arena_new(arena, sizeof *out->cells * COLUMNS * (size_t)(out->n_rows + 1), &out->cells));
    const char **row = out->cells;
    for (const report_job_event_t *event = job->events; event; event = event->next, row += COLUMNS)
        TRY(put_event(arena, event, row));
    return ERR_OK;
}
