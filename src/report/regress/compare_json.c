/* SPDX-License-Identifier: MIT */
/* Prints a comparison as one JSON object (docs/records.md). */
#include "base/json.h"
#include "report/regress/compare.h"

static void put_pair(json_t *j, const char *key, int64_t base, int64_t now)
{
    json_array_begin(j, key);
    json_int(j, NULL, base);
    json_int(j, NULL, now);
    json_array_end(j);
}

static void put_difference(json_t *j, const stats_difference_t *d)
{
    json_real(j, "base_sec", d->base);
    json_real(j, "new_sec", d->now);
    json_real(j, "ratio", d->ratio);
    json_real(j, "low", d->low);
    json_real(j, "high", d->high);
    json_real(j, "error", d->error);
    json_real(j, "u", d->u);
    json_real(j, "p_rank", d->p_rank);
    json_real(j, "p", d->p);
    put_pair(j, "batches", d->n_batches[0], d->n_batches[1]);
    json_bool(j, "start_spread_assumed", d->assumed);
}

static void put_parts(json_t *j, const compare_metric_t *metric)
{
    json_array_begin(j, "parts");
    for (int i = 0; i < metric->n_parts; i++) {
        json_object_begin(j, NULL);
        json_string(j, "name", metric->parts[i].name);
        json_real(j, "share", metric->parts[i].share);
        put_difference(j, &metric->parts[i].difference);
        json_object_end(j);
    }
    json_array_end(j);
    json_string(j, "attributed_to", metric->attributed_to ? metric->attributed_to->name : NULL);
}

static void put_metric(json_t *j, const compare_metric_t *metric)
{
    json_object_begin(j, NULL);
    json_string(j, "case", metric->case_name);
    json_string(j, "test", metric->test);
    json_string(j, "key", metric->key);
    json_string(j, "label", metric->label);
    json_string(j, "verdict", verdict_names[metric->verdict]);
    json_string(j, "reason", metric->reason[0] ? metric->reason : NULL);
    json_bool(j, "tested", metric->tested);
    json_bool(j, "interleaved", metric->interleaved);
    json_real(j, "q", metric->q);
    put_difference(j, &metric->difference);
    put_pair(j, "starts", metric->n_runs[0], metric->n_runs[1]);
    put_pair(j, "slowed_starts", metric->n_slowed[0], metric->n_slowed[1]);
    put_pair(j, "samples", metric->n_samples[0], metric->n_samples[1]);
    put_pair(j, "invalid_samples", metric->n_invalid[0], metric->n_invalid[1]);
    put_parts(j, metric);
    json_object_end(j);
}

static void put_text(json_t *j, const char *key, const char *text)
{
    json_string(j, key, text[0] ? text : NULL);
}

static void put_side(json_t *j, const char *key, const compare_side_t *side, const report_t *report)
{
    json_object_begin(j, key);
    json_array_begin(j, "files");
    for (int i = 0; i < report->n_files; i++) json_string(j, NULL, report->files[i].name);
    json_array_end(j);
    json_int(j, "runs", side->n_runs);
    json_int(j, "runs_excluded", side->n_left_out);
    put_text(j, "first", side->first);
    put_text(j, "last", side->last);
    put_text(j, "git", side->git);
    json_object_end(j);
}

static void put_all(json_t *j, const comparison_t *c, const compare_options_t *o)
{
    json_record_begin(j, RECORD_COMPARISON);
    json_int(j, "schema", REPORT_SCHEMA);
    json_string(j, "verdict", verdict_names[c->verdict]);
    json_bool(j, "decided", compare_decided(c));
    json_object_begin(j, "n");
    for (int i = 0; i < VERDICTS; i++) json_int(j, verdict_names[i], c->n_of[i]);
    json_object_end(j);
    json_object_begin(j, "options");
    json_real(j, "min_effect", o->min_effect);
    json_real(j, "alpha", o->alpha);
    json_bool(j, "force", o->force);
    json_int(j, "resamples", o->n_resamples);
    json_int(j, "seed", (int64_t)o->seed);
    json_object_end(j);
    put_side(j, "base", &c->sides[0], c->base);
    put_side(j, "new", &c->sides[1], c->now);
    json_array_begin(j, "metrics");
    for (const compare_metric_t *at = c->metrics; at; at = at->next) put_metric(j, at);
    json_array_end(j);
    json_array_begin(j, "notes");
    for (int i = 0; i < c->n_notes; i++) json_string(j, NULL, c->notes[i]);
    json_array_end(j);
    json_object_end(j);
}

err_t compare_print_json(const comparison_t *comparison, const compare_options_t *options, FILE *out)
{
    json_t j = {0};
    put_all(&j, comparison, options);
    err_t err = j.status;
    if (err == ERR_OK) fprintf(out, "%s\n", j.text); /* the caller checks the stream for errors */
    json_free(&j);
    return err;
}
