/* SPDX-License-Identifier: MIT */
/* The sections without charts: the first, runs and machine; supervised jobs (faults, restarts and goodput); results
 * of other commands; the last, measurements that no chart shows. */
#include <math.h>
#include <string.h>

#include "report/html/panel.h"
#include "report/records/job.h"
#include "report/records/report.h"
#include "report/records/results.h"

static const report_run_t *first_bench(const report_t *report)
{
    for (const report_run_t *run = report->runs; run; run = run->next)
        if (!run->train && run->line > 0) return run;
    for (const report_run_t *run = report->runs; run; run = run->next)
        if (run->line > 0) return run;
    return NULL;
}

/* Adds a word to a list that does not have it yet. */
static const char *add_once(html_t *h, const char *list, const char *word)
{
    char needle[160], hay[1024];
    snprintf(needle, sizeof needle, ", %s,", word);
    snprintf(hay, sizeof hay, ", %s,", list);
    return strstr(hay, needle) || strlen(list) > 400 ? list : html_join(h, list, word);
}

static const char *what_text(html_t *h, const report_t *report)
{
    int n_bench = 0, n_train = 0;
    const char *cases = "", *models = "", *out = "";
    for (const report_run_t *run = report->runs; run; run = run->next) {
        n_bench += !run->train;
        n_train += run->train != NULL;
        if (run->train && run->train->model[0]) models = add_once(h, models, run->train->model);
        for (const report_group_t *group = run->groups; group; group = group->next)
            cases = add_once(h, cases, group->case_name);
    }
    if (n_bench > 0)
        out = html_format(h, "%d start%s of dptrain bench%s%s", n_bench, n_bench > 1 ? "s" : "",
                          cases[0] ? ": " : "", cases);
    if (n_train > 0)
        out = html_format(h, "%s%s%d training run%s%s%s", out, n_bench > 0 ? "; " : "", n_train,
                          n_train > 1 ? "s" : "", models[0] ? ": " : "", models);
    return out;
}

/* Whether a text has the form 2026-11-21T10:16:25Z. */
static bool is_time(const char *text)
{
    static const char form[] = "0000-00-00T00:00:00Z";
    for (size_t i = 0; i < sizeof form; i++)
        if (form[i] == '0' ? !(text[i] >= '0' && text[i] <= '9') : text[i] != form[i]) return false;
    return true;
}

static const char *when_text(html_t *h, const report_t *report)
{
    const char *first = NULL, *last = NULL;
    for (const report_run_t *run = report->runs; run; run = run->next) {
        if (!run->time[0]) continue;
        if (!first || strcmp(run->time, first) < 0) first = run->time;
        if (!last || strcmp(run->time, last) > 0) last = run->time;
    }
    if (!first) return "not recorded";
    bool one = strcmp(first, last) == 0;
    if (!is_time(first) || !is_time(last)) return one ? first : html_format(h, "%s to %s", first, last);
    const char *out = html_format(h, "%.10s %.5s", first, first + 11);
    if (memcmp(first, last, 10) != 0)
        out = html_format(h, "%s to %.10s %.5s", out, last, last + 11);
    else if (memcmp(first, last, 16) != 0)
        out = html_format(h, "%s to %.5s", out, last + 11);
    return html_format(h, "%s UTC", out);
}

static const char *files_text(html_t *h, const report_t *report)
{
    enum { MOST = 8 };
    const char *out = "";
    for (int i = 0; i < report->n_files && i < MOST; i++) out = html_join(h, out, report->files[i].name);
    return report->n_files > MOST ? html_format(h, "%s and %d more", out, report->n_files - MOST) : out;
}

static const char *ranks_text(html_t *h, const report_t *report)
{
    const char *out = "";
    for (const report_run_t *run = report->runs; run; run = run->next) {
        double ranks = run->train ? run->train->ranks : run->ranks;
        double threads = run->train ? run->train->threads : run->threads;
        if (isfinite(ranks))
            out = add_once(h, out,
                           html_format(h, "%s × %s thread%s", figure_number(ranks).text,
                                       figure_number(threads).text, threads > 1 ? "s" : ""));
    }
    return out[0] ? out : "not recorded";
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
        for (const report_run_t *run = h->sides[side]->runs; run; run = run->next)
            if (!run->train && strcmp(place_id(run, place), place_id(first, place)) != 0) return false;
    return first_bench(h->in->base) && !first_bench(h->in->base)->train;
}

/* Names and values, and the number of runs that differ. */
static void put_place(html_t *h, int side, int place, bool same)
{
    const report_t *report = h->sides[side];
    const report_run_t *run = first_bench(report);
    const report_run_t *other = h->in->base ? first_bench(h->sides[!side]) : NULL;
    report_fields_t fields = place_fields(run, place), others = place_fields(other, place);
    int n_differ = 0;
    html_put(h, same ? "<td colspan=\"2\" class=\"both\">" : "<td>");
    for (int i = 0; i < fields.n; i++) {
        figure_t room;
        /* The other side's field of that name. */
        const report_field_t *field = &fields.at[i], *its = fields_find(others, field->name);
        bool marked =
            others.n > 0 && (!its || strcmp(its->text ? its->text : "", field->text ? field->text : "") != 0);
        html_put(h,
                 marked ? "<span class=\"kv differs\"><i>%s</i> %s</span> "
                        : "<span class=\"kv\"><i>%s</i> %s</span> ",
                 field->name, fields_text(field, &room));
    }
    if (fields.n == 0) html_put(h, "not recorded");
    for (const report_run_t *at = report->runs; at; at = at->next)
        n_differ += !at->train && at->line > 0 && run && !run->train &&
                    strcmp(place_id(at, place), place_id(run, place)) != 0;
    if (n_differ > 0) html_put(h, "<b class=\"differs\">%d of the starts differ</b>", n_differ);
    html_put(h, "</td>");
}

void html_warnings(html_t *h)
{
    static const char *const of[] = {"", " of base"};
    for (int side = 0; side < HTML_SIDES && h->sides[side]; side++) {
        const report_t *report = h->sides[side];
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
        if (n_invalid > 0)
            html_put(h, HTML_NOTE, html_format(h, "Unusable lines%s: %lld.", of[side], (long long)n_invalid));
        if (n_cut > 0)
            html_put(h, "<p class=\"note\">Incomplete runs%s: %d. Their measurements are shown.</p>\n",
                     of[side], n_cut);
        if (n_disturbed > 0)
            html_put(h, HTML_NOTE,
                     html_format(h, "Other load disturbed the machine during %lld of %lld points%s.",
                                 (long long)n_disturbed, (long long)n_points, of[side]));
    }
}

static void put_options(html_t *h, const html_run_t *run)
{
    static const table_column_t columns[] = {{"option", .is_text = true}, {"value", .is_text = true}};
    const report_fields_t options = run->train->options;
    if (options.n == 0) return;
    html_put(h, "<details><summary>Options%s%s</summary>\n", h->n_runs > 1 ? " of " : "",
             h->n_runs > 1 ? run->name : "");
    html_table_begin(h, columns, 2);
    for (int i = 0; i < options.n; i++) {
        figure_t room;
        html_row(h, columns, 2,
                 (const char *const[]){options.at[i].name, fields_text(&options.at[i], &room)});
    }
    html_table_end(h);
    html_put(h, "</details>\n");
}

const char *html_summary(html_t *h)
{
    if (!h->in->now->runs) return "";
    return html_format(h, "%s · %s", what_text(h, h->in->now), when_text(h, h->in->now));
}

err_t html_head(html_t *h)
{
    static const struct {
        const char *name;
        const char *(*text)(html_t *, const report_t *);
    } texts[] = {{"ran", what_text}, {"when", when_text}, {"ranks", ranks_text}, {"files", files_text}};
    static const char *const places[] = {"hardware", "fabric", "software"};
    int n_sides = h->in->base ? 2 : 1;
    if (!h->in->now->runs && !(h->in->base && h->in->base->runs)) return ERR_OK;
    if (!h->only_trains) html_warnings(h);
    if (h->only_trains) html_put(h, "<details><summary>Files, ranks, machine</summary>\n");
    html_put(h, h->in->base ? "<table class=\"facts two\"><thead><tr><td></td><th scope=\"col\">base</th>"
                              "<th scope=\"col\">new</th></tr></thead>\n<tbody>\n"
                            : "<table class=\"facts\">\n<tbody>\n");
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        html_put(h, "<tr><th scope=\"row\">%s</th>", texts[i].name);
        for (int side = n_sides - 1; side >= 0; side--)
            html_put(h, "<td>%s</td>", texts[i].text(h, h->sides[side]));
        html_put(h, "</tr>\n");
    }
    for (int place = 0; place < 3; place++) {
        bool known = false, same = is_same(h, place);
        for (int side = 0; side < n_sides; side++)
            known |= place_fields(first_bench(h->sides[side]), place).n > 0;
        if (!known) continue;
        html_put(h, "<tr><th scope=\"row\">%s</th>", places[place]);
        for (int side = same ? HTML_NOW : n_sides - 1; side >= 0; side--) put_place(h, side, place, same);
        html_put(h, "</tr>\n");
    }
    html_put(h, "</tbody></table>\n");
    if (h->only_trains) html_put(h, "</details>\n");
    for (int i = 0; i < h->n_runs && i < HTML_MAX_RUNS && h->only_trains; i++) put_options(h, &h->runs[i]);
    return ERR_OK;
}

err_t html_rest(html_t *h)
{
    static const table_column_t columns[] = {
        {"measurement", .is_text = true}, {"time", .is_text = false}, {"figures", .is_text = true}};
    int n = 0;
    double sec;
    for (int i = 0; i < h->n_items; i++) {
        const html_item_t *item = &h->items[i];
        if (item->shown) continue;
        if (n++ == 0) {
            html_put(h, "<p>Median time over the starts; figures of the last start.</p>\n");
            html_table_begin(h, columns, 3);
        }
        const int side = item->side[HTML_NOW] ? HTML_NOW : HTML_BASE;
        const metric_t *metric = item->side[side];
        const report_fields_t fields = metric->last->point->metrics;
        const char *figures = "";
        TRY(html_seconds(h, item, side, &sec));
        for (int f = 0; f < fields.n && strlen(figures) < 160; f++) {
            figure_t room;
            figures = html_format(h, "%s%s%s %s", figures, f ? ", " : "", fields.at[f].name,
                                  fields_text(&fields.at[f], &room));
        }
        html_row(
            h, columns, 3,
            (const char *const[]){html_format(h, "%s%s", metric->label, side == HTML_NOW ? "" : " (base)"),
                                  html_format(h, "%s", figure_time(sec).text), figures});
    }
    if (n > 0) html_table_end(h);
    return ERR_OK;
}

err_t html_job(html_t *h)
{
    for (const report_job_t *job = h->in->now->jobs; job; job = job->next) {
        const char *goodput, *restarts;
        table_t table;
        TRY(report_job_goodput(&h->arena, job, &goodput));
        TRY(report_job_restarts(&h->arena, job, &restarts));
        html_put(h, "<p class=\"note\">Job %s of %s: %s. Goodput %s. Restarts: %s.</p>\n", job->id, job->time,
                 report_job_end(job), goodput, restarts);
        TRY(report_job_table(&h->arena, job, &table));
        if (table.n_rows > 0) html_table(h, &table);
    }
    return ERR_OK;
}

err_t html_results(html_t *h)
{
    static const table_column_t columns[] = {{"field", .is_text = true}, {"value", .is_text = true}};
    if (h->in->now->results)
        html_put(h, "<p>Of dptrain eval, predict, check, report compare and report history.</p>\n");
    for (const report_result_t *result = h->in->now->results; result; result = result->next) {
        fact_t *facts;
        table_t table;
        html_put(h, HTML_NOTE, result->title);
        TRY(report_result_facts(&h->arena, h->in->now, result, &facts));
        html_table_begin(h, columns, 2);
        for (int i = 0; i < 1 + result->fields.n; i++)
            html_row(h, columns, 2, (const char *const[]){facts[i].name, facts[i].text});
        html_table_end(h);
        TRY(report_result_table(&h->arena, result, &table));
        if (table.n_rows == 0) continue;
        html_put(h, "<details><summary>%s</summary>\n", table.title);
        html_table(h, &table);
        html_put(h, "</details>\n");
    }
    return ERR_OK;
}
