/* SPDX-License-Identifier: MIT */
/* Prints a history as one JSON object, or as CSV with a row per value. */
#include <math.h>
#include <string.h>

#include "base/figure.h"
#include "base/json.h"
#include "report/records/render.h"
#include "report/regress/history.h"

static void put_recordings(json_t *j, const history_group_t *group)
{
    json_array_begin(j, "recordings");
    for (int i = 0; i < group->n_recordings; i++) {
        const history_recording_t *recording = &group->recordings[i];
        json_object_begin(j, NULL);
        json_string(j, "file", recording->file);
        json_string(j, "time", recording->time);
        json_string(j, "git", recording->git[0] ? recording->git : NULL);
        json_int(j, "starts", recording->n_starts);
        json_bool(j, "complete", recording->complete);
        json_object_begin(j, "software");
        for (int f = 0; f < recording->software.n; f++)
            json_string(j, recording->software.at[f].name, recording->software.at[f].text);
        json_object_end(j);
        json_object_end(j);
    }
    json_array_end(j);
}

static void put_values(json_t *j, const history_metric_t *metric)
{
    json_array_begin(j, "values");
    for (int i = 0; i < metric->n_values; i++) {
        const history_value_t *value = &metric->values[i];
        json_object_begin(j, NULL);
        json_int(j, "recording", value->recording);
        json_real(j, "sec", value->sec);
        json_real(j, "low_sec", value->low);
        json_real(j, "high_sec", value->high);
        json_int(j, "starts", value->n_starts);
        json_int(j, "starts_used", value->n_used);
        json_bool(j, "disturbed", value->disturbed);
        json_object_end(j);
    }
    json_array_end(j);
}

static void put_changes(json_t *j, const history_metric_t *metric)
{
    json_array_begin(j, "changes");
    for (int i = 0; i < metric->n_changes; i++) {
        const history_change_t *change = &metric->changes[i];
        json_object_begin(j, NULL);
        json_int(j, "before", change->before);
        json_int(j, "after", change->after);
        json_real(j, "ratio", change->ratio);
        json_real(j, "p", change->p);
        json_real(j, "q", change->q);
        json_bool(j, "same_revision", change->same_revision);
        json_object_begin(j, "software");
        for (int d = 0; d < change->n_differences; d++) {
            const history_difference_t *difference = &change->differences[d];
            json_array_begin(j, difference->name);
            json_string(j, NULL, difference->before[0] ? difference->before : NULL);
            json_string(j, NULL, difference->after[0] ? difference->after : NULL);
            json_array_end(j);
        }
        json_object_end(j);
        json_object_end(j);
    }
    json_array_end(j);
}

static void put_metric(json_t *j, const history_metric_t *metric)
{
    json_object_begin(j, NULL);
    json_string(j, "case", metric->case_name);
    json_string(j, "test", metric->test);
    json_string(j, "key", metric->key);
    json_string(j, "label", metric->label);
    json_bool(j, "too_short", metric->too_short);
    put_values(j, metric);
    json_array_begin(j, "levels_sec");
    for (int i = 0; i <= metric->n_changes; i++) json_real(j, NULL, metric->levels[i]);
    json_array_end(j);
    put_changes(j, metric);
    json_object_end(j);
}

static void put_group(json_t *j, const history_group_t *group)
{
    json_object_begin(j, NULL);
    json_string(j, "hardware_id", group->hardware_id);
    json_string(j, "fabric_id", group->fabric_id);
    json_real(j, "ranks", group->ranks);
    json_real(j, "threads", group->threads);
    json_real(j, "days", group->days);
    put_recordings(j, group);
    json_array_begin(j, "metrics");
    for (const history_metric_t *metric = group->metrics; metric; metric = metric->next)
        put_metric(j, metric);
    json_array_end(j);
    json_object_end(j);
}

err_t history_print_json(const history_t *history, const history_options_t *options, FILE *out)
{
    json_t j = {0};
    json_record_begin(&j, RECORD_HISTORY);
    json_int(&j, "schema", REPORT_SCHEMA);
    json_object_begin(&j, "options");
    json_real(&j, "min_effect", options->min_effect);
    json_real(&j, "alpha", options->alpha);
    json_int(&j, "last", options->last);
    json_object_end(&j);
    json_array_begin(&j, "groups");
    for (const history_group_t *group = history->groups; group; group = group->next) put_group(&j, group);
    json_array_end(&j);
    json_array_begin(&j, "notes");
    for (int i = 0; i < history->n_notes; i++) json_string(&j, NULL, history->notes[i]);
    json_array_end(&j);
    json_object_end(&j);
    err_t err = j.status;
    if (err == ERR_OK) fprintf(out, "%s\n", j.text);
    json_free(&j);
    return err;
}

static void put_fields(FILE *out, const char *const *fields, int n)
{
    for (int i = 0; i < n; i++) {
        if (i) fputc(',', out);
        csv_field(out, fields[i]);
    }
}

/* level: index of the level that the value belongs to. */
static void put_row(FILE *out, const history_group_t *group, const history_metric_t *metric,
                    const history_value_t *value, int level)
{
    const history_recording_t *recording = &group->recordings[value->recording];
    const figure_t ranks = figure_exact(group->ranks), threads = figure_exact(group->threads);
    const char *const where[] = {group->hardware_id, group->fabric_id, ranks.text, threads.text};
    const char *const what[] = {recording->time,   recording->git, recording->file,
                                metric->case_name, metric->test,   metric->key};
    put_fields(out, where, 4);
    fputc(',', out);
    put_fields(out, what, 6);
    fprintf(out, ",%s,%s", figure_exact(value->sec).text, figure_exact(value->low).text);
    fprintf(out, ",%s,%d,%d,%s", figure_exact(value->high).text, value->n_starts, value->n_used,
            value->disturbed ? "yes" : "no");
    fprintf(out, ",%s", figure_exact(metric->levels[level]).text);
    bool changed = level > 0 && metric->changes[level - 1].after == value->recording;
    fprintf(out, ",%s\r\n", changed ? figure_exact(metric->changes[level - 1].ratio).text : "");
}

err_t history_print_csv(const history_t *history, FILE *out)
{
    fputs("hardware_id,fabric_id,ranks,threads,time,git,file,case,test,key,sec,low_sec,high_sec,starts,"
          "starts_used,disturbed,level_sec,change_ratio\r\n",
          out);
    for (const history_group_t *group = history->groups; group; group = group->next)
        for (const history_metric_t *metric = group->metrics; metric; metric = metric->next)
            for (int i = 0, level = 0; i < metric->n_values; i++) {
                while (level < metric->n_changes &&
                       metric->changes[level].after <= metric->values[i].recording)
                    level++;
                put_row(out, group, metric, &metric->values[i], level);
            }
    return ERR_OK;
}
