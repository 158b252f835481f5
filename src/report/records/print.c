/* SPDX-License-Identifier: MIT */
/* Prints a report run by run, then jobs, then results of other commands: title, facts, tables, legend. Tables are built in
 * bench_table.c, train_table.c, job.c and results.c. The output formats for people, text and Markdown, are here, too; CSV is in
 * csv.c. */
#include "report/records/print.h"

#include <math.h>
#include <string.h>

#include "base/utf8.h"
#include "report/records/job.h"
#include "report/records/render.h"
#include "report/records/results.h"

/* ---- Output formats: aligned text for terminals, and GitHub Markdown ---- */
static void text_line(FILE *out, const char *text)
{
    table_put_text(out, text);
    fputc('\n', out);
}

static void text_facts(FILE *out, const fact_t *fact, int n)
{
    table_t table = {.columns = {{NULL, true}, {NULL, true}}, .n_columns = 2, .n_rows = 1, .indent = 2};
    const char *cells[2];
    for (int i = 0; i < n; i++) {
        int width = table_text_width(fact[i].name);
        if (width > table.columns[0].min_width) table.columns[0].min_width = width;
    }
    table.cells = cells;
    for (int i = 0; i < n; i++) {
        cells[0] = fact[i].name;
        cells[1] = fact[i].text;
        table_print(&table, out);
    }
    fputc('\n', out);
}

static const char *cell_text(const table_t *table, int64_t row, int column)
{
    const char *text = table->cells[row * table->n_columns + column];
    return text ? text : "";
}

static void text_table(FILE *out, const table_t *table)
{
    table_t copy = *table;
    copy.indent = 2;
    table_put_text(out, table->title);
    if (table->caption[0]) fputs(": ", out);
    text_line(out, table->caption);
    if (table->n_columns > 0) table_print(&copy, out);
    fputc('\n', out);
}

const render_t render_text = {text_line, text_facts, text_table, text_line};

/* Escapes text so that it neither ends a cell nor acts as markup or HTML. */
static void put_escaped(FILE *out, const char *text)
{
    char before = ' ';
    for (size_t n; *text; before = *text, text += n) {
        n = utf8_length(text);
        if (n == 0 || utf8_is_control(text, n)) {
            fputc(n == 1 && strchr("\n\r\t", *text) ? ' ' : '?', out);
            if (n == 0) n = 1;
            continue;
        }
        bool at_edge = before == ' ' || text[1] == ' ' || text[1] == '\0'; /* within a word _ is not markup */
        if (*text == '<')
            fputs("&lt;", out);
        else if (*text == '&')
            fputs("&amp;", out);
        else if (strchr("\\|`*[]~", *text) || (*text == '_' && at_edge))
            fprintf(out, "\\%c", *text);
        else
            fwrite(text, 1, n, out);
    }
}

/* More characters are markup at the start of a line. */
static void put_line(FILE *out, const char *text)
{
    if (text[0] && strchr("#+->=", text[0])) fputc('\\', out);
    put_escaped(out, text);
}

static void markdown_heading(FILE *out, const char *text)
{
    fputs("## ", out);
    put_escaped(out, text);
    fputs("\n\n", out);
}

static void markdown_facts(FILE *out, const fact_t *fact, int n)
{
    for (int i = 0; i < n; i++) {
        fputs("- ", out);
        put_escaped(out, fact[i].name);
        fputs(": ", out);
        put_escaped(out, fact[i].text);
        fputc('\n', out);
    }
    fputc('\n', out);
}

static void markdown_table(FILE *out, const table_t *table)
{
    fputs("### ", out);
    put_escaped(out, table->title);
    fputs("\n\n", out);
    if (table->caption[0]) {
        put_line(out, table->caption);
        fputs("\n\n", out);
    }
    if (table->n_columns == 0) return;
    for (int c = 0; c < table->n_columns; c++) {
        fputs("| ", out);
        put_escaped(out, table->columns[c].heading);
        fputc(' ', out);
    }
    fputs("|\n", out);
    for (int c = 0; c < table->n_columns; c++) fputs(table->columns[c].is_text ? "|---" : "|---:", out);
    fputs("|\n", out);
    for (int64_t r = 0; r < table->n_rows; r++) {
        for (int c = 0; c < table->n_columns; c++) {
            fputs("| ", out);
            put_escaped(out, cell_text(table, r, c));
            fputc(' ', out);
        }
        fputs("|\n", out);
    }
    fputc('\n', out);
}

static void markdown_note(FILE *out, const char *text)
{
    put_line(out, text);
    fputs("\n\n", out);
}

const render_t render_markdown = {markdown_heading, markdown_facts, markdown_table, markdown_note};

/* ---- The report ---- */
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
