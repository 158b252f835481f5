/* SPDX-License-Identifier: MIT */
/* Prints records as CSV in long form, a row per figure of each point, quoted as in RFC 4180. Records are
 * untrusted: as in the other formats, no escape sequence reaches a terminal. */
#include <math.h>
#include <string.h>

#include "base/utf8.h"
#include "report/records/job.h"
#include "report/records/print.h"
#include "report/records/records.h"
#include "report/records/results.h"
#include "text/figure.h"

void csv_field(FILE *out, const char *text)
{
    const bool quoted = strpbrk(text, ",\"\r\n") != NULL;
    if (quoted) fputc('"', out);
    for (size_t n; *text; text += n) {
        n = utf8_length(text);
        const bool printable = n > 0 && (!utf8_is_control(text, n) || strchr("\r\n\t", *text));
        if (n == 0) n = 1;
        if (*text == '"') fputc('"', out);
        if (printable)
            fwrite(text, 1, n, out);
        else
            fputc('?', out);
    }
    if (quoted) fputc('"', out);
}

/* The columns that the rows of a point share. */
typedef struct place {
    const report_t *report;
    FILE *out;
    int file;
    int64_t line;
    const char *run, *case_name, *test, *key;
} place_t;

static void put_row(const place_t *place, const char *metric, const char *value, const char *unit)
{
    const char *const fields[] = {place->run, place->case_name, place->test, place->key, metric, value, unit};
    csv_field(place->out, place->report->files[place->file].name);
    fprintf(place->out, ",%lld", (long long)place->line);
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
        fputc(',', place->out);
        csv_field(place->out, fields[i]);
    }
    fputs("\r\n", place->out);
}

static void put_number(const place_t *place, const char *metric, double value, const char *unit)
{
    put_row(place, metric, figure_exact(value).text, unit);
}

static void put_timing(const place_t *place, const report_timing_t *t)
{
    const struct {
        const char *name, *unit;
        double value;
    } figures[] = {
        {"n", "", t->n},
        {"per_sample", "", t->per_sample},
        {"n_disturbed", "", t->n_disturbed},
        {"n_missing", "", (double)t->n_missing},
        {"min", t->unit, t->min},
        {"p50", t->unit, t->p50},
        {"p95", t->unit, t->p95},
        {"p99", t->unit, t->p99},
        {"max", t->unit, t->max},
        {"mean", t->unit, t->mean},
        {"cv", "", t->cv},
        {"ci95_low", t->unit, t->ci_low},
        {"ci95_high", t->unit, t->ci_high},
        {"slowest_rank", "", t->slowest_rank},
        {"slowest_share", "", t->slowest_share},
    };
    put_row(place, "verdict", t->verdict, "");
    put_row(place, "disturbances", t->disturbances, "");
    for (size_t i = 0; i < sizeof figures / sizeof *figures; i++)
        put_number(place, figures[i].name, figures[i].value, figures[i].unit);
}

static void put_fields(const place_t *place, const report_field_t *fields, int64_t n)
{
    for (const report_field_t *field = fields; field < fields + n; field++) {
        const char *unit;
        figure_quantity(field->name, &unit);
        if (field->kind == FIELD_TEXT)
            put_row(place, field->name, field->text, "");
        else
            put_number(place, field->name, field->kind == FIELD_NUMBER ? field->number : NAN, unit);
    }
}

static void put_point(const place_t *place, const report_point_t *point)
{
    put_fields(place, point->metrics.at, point->metrics.n);
    if (point->timing) put_timing(place, point->timing);
}

static err_t put_bench(const report_t *report, const report_run_t *run, arena_t *arena, FILE *out)
{
    for (const report_group_t *group = run->groups; group; group = group->next)
        for (const report_point_t *point = group->first; point; point = point->next) {
            place_t place = {report,           out,         point->file, point->line, run->id,
                             group->case_name, group->test, ""};
            TRY(report_key_text(arena, point, &place.key));
            put_point(&place, point);
            arena_reset(arena);
        }
    return ERR_OK;
}

/* A fraction has no unit, like the shares of dptrain bench. */
static void put_metrics(const place_t *place, const report_train_t *train, const report_epoch_t *epoch,
                        bool val)
{
    for (int i = 0; i < train->n_metrics; i++) {
        const report_metric_t *metric = &train->metrics[i];
        char name[64];
        if (!(val ? metric->val : metric->train)) continue;
        snprintf(name, sizeof name, "%s_%s", val ? "val" : "train", metric->name);
        put_number(place, name, val ? epoch->val[i] : epoch->train[i], "");
    }
}

static void put_epoch(place_t place, const report_train_t *train, const report_epoch_t *epoch)
{
    char key[40];
    snprintf(key, sizeof key, "epoch=%lld", (long long)epoch->epoch);
    place.line = epoch->line;
    place.key = key;
    put_metrics(&place, train, epoch, false);
    put_metrics(&place, train, epoch, true);
    put_number(&place, "images_per_sec", epoch->images_per_sec, "images/s");
}

/* Training runs have no id; their time identifies them. */
static void put_train(const report_t *report, const report_run_t *run, FILE *out)
{
    const report_train_t *train = run->train;
    place_t place = {report, out, run->file, run->line, run->time, "train", train->model, ""};
    put_number(&place, "ranks", train->ranks, "");
    put_number(&place, "global_batch", train->global_batch, "");
    put_number(&place, "steps", train->last_step + 1, "");
    const report_rates_t rates = report_rates(train);
    put_number(&place, "images_per_sec", rates.mean, "images/s");
    put_number(&place, "median_images_per_sec", rates.median, "images/s");
    put_number(&place, "peak_memory_bytes", train->peak_memory_bytes, "B");
    for (int part = 0; part < STEP_PARTS; part++)
        put_number(&place, report_step_parts[part], train->step_sec[part], "s");
    for (const report_epoch_t *epoch = train->epochs; epoch; epoch = epoch->next)
        put_epoch(place, train, epoch);
}

static void put_job(const report_t *report, const report_job_t *job, FILE *out)
{
    const place_t place = {report, out, job->file, job->line, job->id, "job", "", ""};
    for (const record_place_t *at = job_end_places; at->path; at++) {
        const char *unit;
        figure_quantity(at->path, &unit);
        const void *value = (const char *)job + at->at;
        if (at->kind == PLACE_TEXT)
            put_row(&place, at->path, *(const char *const *)value, "");
        else
            put_number(&place, at->path, *(const double *)value, unit);
    }
}

static void put_result(const report_t *report, const report_result_t *result, FILE *out)
{
    char key[40];
    place_t place = {report, out, result->file, result->line, "", result->kind, result->about, ""};
    put_fields(&place, result->fields.at, result->fields.n);
    place.key = key;
    for (int64_t row = 0; row < result->n_rows; row++) {
        snprintf(key, sizeof key, "%s=%lld", result->list, (long long)row);
        put_fields(&place, result->cells + row * result->n_columns, result->n_columns);
    }
}

err_t report_print_csv(const report_t *report, FILE *out)
{
    arena_t arena = {0};
    err_t err = ERR_OK;
    fputs("file,line,run,case,test,key,metric,value,unit\r\n", out);
    for (const report_run_t *run = report->runs; run && err == ERR_OK; run = run->next) {
        if (!run->train)
            err = put_bench(report, run, &arena, out);
        else if (!report->only_case && !report->only_test)
            put_train(report, run, out);
    }
    const bool all = !report->only_case && !report->only_test;
    for (const report_job_t *job = report->jobs; job && all; job = job->next) put_job(report, job, out);
    for (const report_result_t *result = report->results; result && all; result = result->next)
        put_result(report, result, out);
    arena_free(&arena);
    return err;
}
