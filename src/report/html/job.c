/* SPDX-License-Identifier: MIT */
/* The section on supervised jobs: faults, restarts and goodput. */
#include "report/records/job.h"
#include "report/html/parts.h"

bool html_has_job(const html_t *h)
{
    return h->in->now->jobs != NULL;
}

static err_t print_job(html_t *h, const report_job_t *job)
{
    const char *goodput, *restarts, *text;
    table_t table;
    TRY(report_job_goodput(&h->arena, job, &goodput));
    TRY(report_job_restarts(&h->arena, job, &restarts));
    TRY(arena_format(&h->arena, &text, "Job %s of %s: %s. Goodput %s. Restarts: %s.", job->id, job->time,
                     report_job_end(job), goodput, restarts));
    html_note(h, text);
    TRY(report_job_table(&h->arena, job, &table));
    if (table.n_rows > 0) html_table(h, &table);
    return ERR_OK;
}

err_t html_job(html_t *h)
{
    html_section(h, "job", "Faults and restarts", NULL);
    for (const report_job_t *job = h->in->now->jobs; job; job = job->next) TRY(print_job(h, job));
    html_section_end(h);
    return ERR_OK;
}
