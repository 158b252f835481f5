/* SPDX-License-Identifier: MIT */
/* The sections without charts: the first, runs and machine; supervised jobs (faults, restarts and goodput); results
 * of other commands; the last, measurements that no chart shows. */
#include <math.h>
#include <string.h>

#include "base/figure.h"
#include "report/html/parts.h"
#include "report/records/job.h"
#include "report/records/report.h"
#include "report/records/results.h"

static const report_t *side_of(const html_t *h, int side)
{
    return side == HTML_BASE ? h->in->base : h->in->now;
}

static const report_run_t *first_bench(const report_t *report)
{
    for (const report_run_t *run = report->runs; run; run = run->next)
        if (!run->train && run->line > 0) return run;
    for (const report_run_t *run = report->runs; run; run = run->next)
        if (run->line > 0) return run;
    return NULL;
}

static void row_begin(html_t *h, const char *name)
{
    fputs("<tr><th scope=\"row\">", h->out);
    html_text(h, name);
    fputs("</th>", h->out);
}

static err_t add_once(html_t *h, const char **list, const char *word)
{
    char needle[160], hay[1024];
    snprintf(needle, sizeof needle, ", %s,", word);
    snprintf(hay, sizeof hay, ", %s,", *list);
    if (strstr(hay, needle) || strlen(*list) > 400) return ERR_OK;
    return arena_format(&h->arena, list, "%s%s%s", *list, (*list)[0] ? ", " : "", word);
}

static err_t what_text(html_t *h, const report_t *report, const char **out)
{
    int n_bench = 0, n_train = 0;
    const char *cases = "", *models = "";
    for (const report_run_t *run = report->runs; run; run = run->next) {
        n_bench += !run->train;
        n_train += run->train != NULL;
        if (run->train && run->train->model[0]) TRY(add_once(h, &models, run->train->model));
        for (const report_group_t *group = run->groups; group; group = group->next)
            TRY(add_once(h, &cases, group->case_name));
    }
    *out = "";
    if (n_bench > 0)
        TRY(arena_format(&h->arena, out, "%d start%s of dptrain bench%s%s", n_bench, n_bench > 1 ? "s" : "",
                         cases[0] ? ": " : "", cases));
    if (n_train > 0)
        TRY(arena_format(&h->arena, out, "%s%s%d training run%s%s%s", *out, n_bench > 0 ? "; " : "", n_train,
                         n_train > 1 ? "s" : "", models[0] ? ": " : "", models));
    return ERR_OK;
}

/* Whether a text has the form 2026-11-21T10:16:25Z. */
static bool is_time(const char *text)
{
    static const char form[] = "0000-00-00T00:00:00Z";
    for (size_t i = 0; i < sizeof form; i++)
        if (form[i] == '0' ? !(text[i] >= '0' && text[i] <= '9') : text[i] != form[i]) return false;
    return true;
}

static err_t when_text(html_t *h, const report_t *report, const char **out)
{
    const char *first = NULL, *last = NULL;
    for (const report_run_t *run = report->runs; run; run = run->next) {
        if (!run->time[0]) continue;
        if (!first || strcmp(run->time, first) < 0) first = run->time;
        if (!last || strcmp(run->time, last) > 0) last = run->time;
    }
    *out = first ? first : "not recorded";
    if (!first) return ERR_OK;
    bool one = strcmp(first, last) == 0;
    if (!is_time(first) || !is_time(last))
        return one ? ERR_OK : arena_format(&h->arena, out, "%s to %s", first, last);
    TRY(arena_format(&h->arena, out, "%.10s %.5s", first, first + 11));
    if (!one && memcmp(first, last, 10) == 0 && memcmp(first, last, 16) != 0)
        TRY(arena_format(&h->arena, out, "%s to %.5s", *out, last + 11));
    if (!one && memcmp(first, last, 10) != 0)
        TRY(arena_format(&h->arena, out, "%s to %.10s %.5s", *out, last, last + 11));
    return arena_format(&h->arena, out, "%s UTC", *out);
}

static err_t files_text(html_t *h, const report_t *report, const char **out)
{
    enum { MOST = 8 };
    *out = "";
    for (int i = 0; i < report->n_files && i < MOST; i++)
        TRY(arena_format(&h->arena, out, "%s%s%s", *out, i ? ", " : "", report->files[i].name));
    if (report->n_files > MOST)
        TRY(arena_format(&h->arena, out, "%s and %d more", *out, report->n_files - MOST));
    return ERR_OK;
}

static err_t ranks_text(html_t *h, const report_t *report, const char **out)
{
    *out = "";
    for (const report_run_t *run = report->runs; run; run = run->next) {
        double ranks = run->train ? run->train->ranks : run->ranks;
        double threads = run->train ? run->train->threads : run->threads;
        const char *text;
        if (!isfinite(ranks)) continue;
        TRY(arena_format(&h->arena, &text, "%s × %s thread%s", figure_number(ranks).text,
                         figure_number(threads).text, threads > 1 ? "s" : ""));
        TRY(add_once(h, out, text));
    }
    if (!(*out)[0]) *out = "not recorded";
    return ERR_OK;
}

static report_fields_t place_fields(const report_run_t *run, int place)
{
    if (!run) return (report_fields_t){0};
    return place == 0 ? run->hardware : place == 1 ? run->fabric : run->software;
}

static const char *place_id(const report_run_t *run, int place)
{
    return place == 0 ? run->hardware_id : place == 1 ? run->fabric_id : run->software_id;
}

/* Whether all runs of both sides have the same id. */
static bool is_same(html_t *h, int place)
{
    const report_run_t *first = first_bench(h->in->now);
    if (!h->in->base || !first || first->train || !place_id(first, place)[0]) return false;
    for (int side = 0; side < HTML_SIDES; side++)
        for (const report_run_t *run = side_of(h, side)->runs; run; run = run->next)
            if (!run->train && strcmp(place_id(run, place), place_id(first, place)) != 0) return false;
    return first_bench(h->in->base) && !first_bench(h->in->base)->train;
}

/* Names and values, and the number of runs that differ. */
static void place_cell(html_t *h, int side, int place, bool same)
{
    const report_t *report = side_of(h, side);
    const report_run_t *run = first_bench(report);
    const report_run_t *other = h->in->base ? first_bench(side_of(h, !side)) : NULL;
    report_fields_t fields = place_fields(run, place), others = place_fields(other, place);
    int n_differ = 0;
    fputs(same ? "<td colspan=\"2\" class=\"both\">" : "<td>", h->out);
    for (int i = 0; i < fields.n; i++) {
        figure_t room;
        /* The other side's field of that name. */
        const report_field_t *field = &fields.at[i], *its = fields_find(others, field->name);
        bool marked =
            others.n > 0 && (!its || strcmp(its->text ? its->text : "", field->text ? field->text : "") != 0);
        fputs(marked ? "<span class=\"kv differs\"><i>" : "<span class=\"kv\"><i>", h->out);
        html_text(h, field->name);
        fputs("</i> ", h->out);
        html_text(h, fields_text(field, &room));
        fputs("</span> ", h->out);
    }
    if (fields.n == 0) fputs("not recorded", h->out);
    for (const report_run_t *at = report->runs; at; at = at->next)
        n_differ += !at->train && at->line > 0 && run && !run->train &&
                    strcmp(place_id(at, place), place_id(run, place)) != 0;
    if (n_differ > 0) fprintf(h->out, "<b class=\"differs\">%d of the starts differ</b>", n_differ);
    fputs("</td>", h->out);
}

/* Warnings about the quality of the data. */
static err_t put_warnings(html_t *h)
{
    static const char *const of[] = {"", " of base"};
    const char *text;
    for (int side = 0; side < HTML_SIDES && side_of(h, side); side++) {
        const report_t *report = side_of(h, side);
        int64_t n_invalid = 0, n_points = 0, n_disturbed = 0;
        int n_cut = 0;
        for (int i = 0; i < report->n_files; i++)
            n_invalid += report->files[i].bad.n + report->files[i].newer.n;
        for (const metric_t *metric = h->metrics[side].first; metric; metric = metric->next)
            for (const metric_start_t *start = metric->starts; start; start = start->next) {
                n_points++;
                n_disturbed += start->disturbed;
            }
        for (const report_run_t *run = report->runs; run; run = run->next)
            n_cut += metrics_incomplete(run) != NULL;
        if (n_invalid > 0) {
            TRY(arena_format(&h->arena, &text, "Unusable lines%s: %lld.", of[side], (long long)n_invalid));
            html_note(h, text);
        }
        if (n_cut > 0) {
            TRY(arena_format(&h->arena, &text, "Incomplete runs%s: %d. Their measurements are shown.",
                             of[side], n_cut));
            html_note(h, text);
        }
        if (n_disturbed > 0) {
            TRY(arena_format(&h->arena, &text,
                             "Other load disturbed the machine during %lld of %lld points%s.",
                             (long long)n_disturbed, (long long)n_points, of[side]));
            html_note(h, text);
        }
    }
    return ERR_OK;
}

err_t html_summary(html_t *h, const char **out)
{
    const char *what, *when;
    *out = "";
    if (!h->in->now->runs) return ERR_OK;
    TRY(what_text(h, h->in->now, &what));
    TRY(when_text(h, h->in->now, &when));
    return arena_format(&h->arena, out, "%s · %s", what, when);
}

err_t html_head(html_t *h)
{
    static const struct {
        const char *name;
        err_t (*text)(html_t *, const report_t *, const char **);
    } texts[] = {{"ran", what_text}, {"when", when_text}, {"ranks", ranks_text}, {"files", files_text}};
    static const char *const places[] = {"hardware", "fabric", "software"};
    int n_sides = h->in->base ? 2 : 1;
    html_section(h, "where", "Runs and machine", NULL);
    fputs(h->in->base ? "<table class=\"facts two\">" : "<table class=\"facts\">", h->out);
    if (h->in->base)
        fputs("<thead><tr><td></td><th scope=\"col\">base</th><th scope=\"col\">new</th></tr></thead>",
              h->out);
    fputs("\n<tbody>\n", h->out);
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        row_begin(h, texts[i].name);
        for (int side = n_sides - 1; side >= 0; side--) {
            const char *text;
            TRY(texts[i].text(h, side_of(h, side), &text));
            fputs("<td>", h->out);
            html_text(h, text);
            fputs("</td>", h->out);
        }
        fputs("</tr>\n", h->out);
    }
    for (int place = 0; place < 3; place++) {
        bool known = false;
        for (int side = 0; side < n_sides; side++)
            known |= place_fields(first_bench(side_of(h, side)), place).n > 0;
        if (!known) continue;
        row_begin(h, places[place]);
        bool same = is_same(h, place);
        for (int side = same ? HTML_NOW : n_sides - 1; side >= 0; side--) place_cell(h, side, place, same);
        fputs("</tr>\n", h->out);
    }
    fputs("</tbody></table>\n", h->out);
    TRY(put_warnings(h));
    html_section_end(h);
    return ERR_OK;
}

bool html_has_rest(const html_t *h)
{
    for (int i = 0; i < h->n_items; i++)
        if (!h->items[i].shown) return true;
    return false;
}

err_t html_rest(html_t *h)
{
    enum { COLUMNS = 3 };
    table_t table = {.columns = {{"measurement", true}, {"time", false}, {"figures", true}},
                     .n_columns = COLUMNS};
    for (int i = 0; i < h->n_items; i++) table.n_rows += !h->items[i].shown;
    TRY(arena_new(&h->arena, sizeof *table.cells * (size_t)table.n_rows * COLUMNS, &table.cells));
    const char **at = table.cells;
    double sec;
    for (int i = 0; i < h->n_items; i++) {
        const html_item_t *item = &h->items[i];
        if (item->shown) continue;
        const metric_t *metric = item->side[item->side[HTML_NOW] ? HTML_NOW : HTML_BASE];
        TRY(arena_format(&h->arena, at++, "%s%s", metric->label, item->side[HTML_NOW] ? "" : " (base)"));
        TRY(html_seconds(h, item, item->side[HTML_NOW] ? HTML_NOW : HTML_BASE, &sec));
        TRY(arena_format(&h->arena, at++, "%s", figure_time(sec).text));
        report_fields_t fields = metric->last->point->metrics;
        *at = "";
        for (int f = 0; f < fields.n && strlen(*at) < 160; f++) {
            figure_t room;
            TRY(arena_format(&h->arena, at, "%s%s%s %s", *at, f ? ", " : "", fields.at[f].name,
                             fields_text(&fields.at[f], &room)));
        }
        at++;
    }
    html_section(h, "rest", "Further measurements",
                 "Median time over the starts; figures of the last start.");
    html_table(h, &table);
    html_section_end(h);
    return ERR_OK;
}

bool html_has_job(const html_t *h)
{
    return h->in->now->jobs != NULL;
}

err_t html_job(html_t *h)
{
    html_section(h, "job", "Faults and restarts", NULL);
    for (const report_job_t *job = h->in->now->jobs; job; job = job->next) {
        const char *goodput, *restarts, *text;
        table_t table;
        TRY(report_job_goodput(&h->arena, job, &goodput));
        TRY(report_job_restarts(&h->arena, job, &restarts));
        TRY(arena_format(&h->arena, &text, "Job %s of %s: %s. Goodput %s. Restarts: %s.", job->id, job->time,
                         report_job_end(job), goodput, restarts));
        html_note(h, text);
        TRY(report_job_table(&h->arena, job, &table));
        if (table.n_rows > 0) html_table(h, &table);
    }
    html_section_end(h);
    return ERR_OK;
}

bool html_has_results(const html_t *h)
{
    return h->in->now->results != NULL;
}

err_t html_results(html_t *h)
{
    html_section(h, "results", "Results",
                 "Of dptrain eval, predict, check, report compare and report history.");
    for (const report_result_t *result = h->in->now->results; result; result = result->next) {
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
    }
    html_section_end(h);
    return ERR_OK;
}
