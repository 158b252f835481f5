/* SPDX-License-Identifier: MIT */
/* Prints a report run by run, then jobs, then results of other commands: title, facts, tables, legend. Tables are built in
 * bench_table.c, train_table.c, job_table.c and results.c, output formats are in render_text.c. */
#include "report/records/print.h"

#include <math.h>
#include <string.h>

#include "report/records/fields.h"
#include "report/records/job.h"
#include "report/records/results.h"

enum { FIELDS_TEXT_MAX = 200 };

const char *print_mark(const char *verdict)
{
    if (strcmp(verdict, "ok") == 0) return "";
    if (strcmp(verdict, "inconclusive") == 0) return "~";
    return strcmp(verdict, "disturbed") == 0 ? "!" : "?";
}

err_t print_fields_text(printer_t *printer, const report_fields_t *fields, const char **out)
{
    *out = "";
    for (int i = 0; i < fields->n; i++) {
        const report_field_t *field = &fields->at[i];
        const char *comma = i ? ", " : "";
        if (strlen(*out) > FIELDS_TEXT_MAX) return arena_format(&printer->arena, out, "%s, …", *out);
        figure_t room;
        TRY(arena_format(&printer->arena, out, "%s%s%s %s", *out, comma, field->name,
                         fields_text(field, &room)));
    }
    return ERR_OK;
}

static err_t print_title(printer_t *p, const report_run_t *run)
{
    const char *text, *what = run->train ? "training run" : "bench run";
    if (run->line == 0)
        TRY(arena_format(&p->arena, &text, "unknown run%s%s: its first record is missing%s",
                         run->id[0] ? " " : "", run->id, run->train ? "" : ", so the machine is unknown"));
    else
        TRY(arena_format(&p->arena, &text, "%s%s%s of %s, %s", what, run->id[0] ? " " : "", run->id,
                         run->time[0] ? run->time : "unknown time",
                         run->end_reason[0] ? run->end_reason : "no end record: still running or killed"));
    p->render->heading(p->out, text);
    return ERR_OK;
}

static err_t add_place(printer_t *p, const char *name, const char *id, const report_fields_t *fields,
                       fact_t *fact)
{
    const char *text;
    TRY(print_fields_text(p, fields, &text));
    fact->name = name;
    return arena_format(&p->arena, &fact->text, "%s%s%s", id, id[0] && text[0] ? ": " : "", text);
}

static err_t print_bench_run(printer_t *p, const report_run_t *run)
{
    fact_t facts[8];
    int n = 0;
    facts[n++] = (fact_t){"file", p->report->files[run->file].name};
    facts[n].name = "points";
    TRY(arena_format(&p->arena, &facts[n].text, "%lld", (long long)run->n_points));
    if (p->report->n_filtered == 0 && run->n_points_said > (double)run->n_points)
        TRY(arena_format(&p->arena, &facts[n].text, "%lld of %.0f", (long long)run->n_points,
                         run->n_points_said));
    if (isfinite(run->seconds))
        TRY(arena_format(&p->arena, &facts[n].text, "%s in %s", facts[n].text,
                         figure_time(run->seconds).text));
    n++;
    if (isfinite(run->ranks)) {
        facts[n].name = "ranks";
        TRY(arena_format(&p->arena, &facts[n++].text, "%s, threads per rank: %s",
                         figure_number(run->ranks).text, figure_number(run->threads).text));
    }
    if (run->line > 0) {
        TRY(add_place(p, "hardware", run->hardware_id, &run->hardware, &facts[n++]));
        TRY(add_place(p, "fabric", run->fabric_id, &run->fabric, &facts[n++]));
        TRY(add_place(p, "software", run->software_id, &run->software, &facts[n++]));
    }
    p->render->facts(p->out, facts, n);
    arena_reset(&p->arena);
    return bench_tables_print(p, run);
}

/* Runs that the filters left empty are not shown. */
static bool is_shown(const report_t *report, const report_run_t *run)
{
    bool filtered = report->only_case || report->only_test;
    if (run->train) return !filtered;
    return run->n_points > 0 || (run->line > 0 && !filtered);
}

static err_t print_notes(printer_t *p)
{
    const char *text;
    if (p->inconclusive)
        p->render->note(p->out, "~ inconclusive: the precision (--ci) was not reached within the "
                                "budget.");
    if (p->disturbed)
        p->render->note(p->out,
                        "! disturbed: other load left too few undisturbed samples, so all samples count.");
    if (p->n_missing == 0) return ERR_OK;
    TRY(arena_format(&p->arena, &text,
                     "A dash in place of times: a time or one of its samples is null or NaN (points: %lld).",
                     (long long)p->n_missing));
    p->render->note(p->out, text);
    return ERR_OK;
}

static err_t print_job(printer_t *p, const report_job_t *job)
{
    const char *text;
    table_t table;
    fact_t facts[] = {{"file", p->report->files[job->file].name}, {"goodput", NULL}, {"restarts", NULL}};
    TRY(arena_format(&p->arena, &text, "job %s of %s, %s", job->id, job->time[0] ? job->time : "unknown time",
                     report_job_end(job)));
    p->render->heading(p->out, text);
    TRY(report_job_goodput(&p->arena, job, &facts[1].text));
    TRY(report_job_restarts(&p->arena, job, &facts[2].text));
    p->render->facts(p->out, facts, sizeof facts / sizeof *facts);
    TRY(report_job_table(&p->arena, job, &table));
    if (table.n_rows > 0) p->render->table(p->out, &table);
    arena_reset(&p->arena);
    return ERR_OK;
}

static err_t print_result(printer_t *p, const report_result_t *result)
{
    table_t table;
    fact_t *facts;
    p->render->heading(p->out, result->title);
    TRY(report_result_facts(&p->arena, p->report, result, &facts));
    p->render->facts(p->out, facts, 1 + result->fields.n);
    TRY(report_result_table(&p->arena, result, &table));
    if (table.n_rows > 0) p->render->table(p->out, &table);
    arena_reset(&p->arena);
    return ERR_OK;
}

static err_t print_runs(printer_t *p)
{
    for (const report_run_t *run = p->report->runs; run; run = run->next) {
        if (!is_shown(p->report, run)) continue;
        TRY(print_title(p, run));
        TRY(run->train ? train_tables_print(p, run) : print_bench_run(p, run));
    }
    for (const report_job_t *job = p->report->jobs; job; job = job->next)
        if (!p->report->only_case && !p->report->only_test) TRY(print_job(p, job));
    for (const report_result_t *result = p->report->results; result; result = result->next)
        if (!p->report->only_case && !p->report->only_test) TRY(print_result(p, result));
    return print_notes(p);
}

err_t report_print(const report_t *report, const render_t *render, FILE *out)
{
    printer_t printer = {.report = report, .render = render, .out = out};
    err_t err = print_runs(&printer);
    arena_free(&printer.arena);
    return err;
}
