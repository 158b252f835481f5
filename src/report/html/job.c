/* SPDX-License-Identifier: MIT */
/* The sections on supervised jobs (faults, restarts and goodput), and on the results of other commands. */
#include "report/records/job.h"
#include "report/html/parts.h"
#include "report/records/results.h"

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

bool html_has_results(const html_t *h)
{
    return h->in->now->results != NULL;
}

static err_t print_result(html_t *h, const report_result_t *result)
{
    const int n = 1 + result->fields.n;
    fact_t *facts;
    table_t table = {.columns = {{"field", true}, {"value", true}}, .n_columns = 2, .n_rows = n};
    html_note(h, result->title);
    TRY(report_result_facts(&h->arena, h->in->now, result, &facts));
    TRY(arena_new(&h->arena, sizeof *table.cells * 2 * (size_t)n, &table.cells));
    for (int i = 0; i < n; i++) {
        table.cells[2 * i] = facts[i].name;
        table.cells[2 * i + 1] = facts[i].text;
    }
    html_table(h, &table);
    TRY(report_result_table(&h->arena, result, &table));
    if (table.n_rows > 0) html_folded(h, table.title, &table);
    return ERR_OK;
}

err_t html_results(html_t *h)
{
    html_section(h, "results", "Results",
                 "Of dptrain eval, predict, check, report compare and report history.");
    for (const report_result_t *result = h->in->now->results; result; result = result->next)
        TRY(print_result(h, result));
    html_section_end(h);
    return ERR_OK;
}
