/* SPDX-License-Identifier: MIT */
/* Texts and table of a supervised job's life, for all output formats. */
#include <math.h>

#include "base/figure.h"
#include "report/records/job.h"

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
