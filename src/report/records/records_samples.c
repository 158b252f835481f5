/* SPDX-License-Identifier: MIT */
/* Reads the samples of a point: total, parts, and the size of each batch. */
#include <math.h>
#include <string.h>

#include "report/records/records.h"

static bool is_part(const json_value_t *value)
{
    static const char ending[] = "_samples";
    size_t n = strlen(value->key), n_ending = sizeof ending - 1;
    return value->kind == JSON_ARRAY && n > n_ending && strcmp(value->key + n - n_ending, ending) == 0;
}

static err_t read_array(report_t *report, const json_value_t *array, const char *part, report_samples_t *out)
{
    double *sec;
    int64_t i = 0;
    TRY(arena_new(&report->arena, (size_t)array->n * sizeof *sec, &sec));
    for (const json_value_t *at = array->first; at; at = at->next, i++)
        if (!json_as_real(at, &sec[i])) sec[i] = NAN;
    *out = (report_samples_t){.sec = sec, .n = array->n};
    return intern_text(&report->words, part, &out->part);
}

/* Ignores batch sizes that do not add up to the samples. */
static err_t read_batches(report_t *report, const json_value_t *array, report_point_t *point)
{
    int32_t *batch_n;
    int64_t sum = 0, n, i = 0;
    if (!array || array->kind != JSON_ARRAY || array->n == 0) return ERR_OK;
    TRY(arena_new(&report->arena, (size_t)array->n * sizeof *batch_n, &batch_n));
    for (const json_value_t *at = array->first; at; at = at->next, i++) {
        if (!json_as_int(at, &n) || n < 0 || n > point->samples->n - sum) return ERR_OK;
        batch_n[i] = (int32_t)n;
        sum += n;
    }
    if (sum != point->samples->n) return ERR_OK;
    point->batch_n = batch_n;
    point->n_batches = narrow_int(array->n);
    return ERR_OK;
}

err_t report_copy_samples(report_t *report, const json_value_t *record, report_point_t *point)
{
    const json_value_t *total = json_get(record, "samples");
    report_samples_t *samples;
    int n = 1;
    if (!total || total->kind != JSON_ARRAY || total->n == 0) return ERR_OK;
    for (const json_value_t *at = record->first; at; at = at->next) n += is_part(at);
    TRY(arena_new(&report->arena, (size_t)n * sizeof *samples, &samples));
    TRY(read_array(report, total, "", &samples[0]));
    n = 1;
    for (const json_value_t *at = record->first; at; at = at->next) {
        char part[64];
        size_t n_part = strlen(at->key) - strlen("_samples");
        if (!is_part(at) || at->n != total->n || n_part >= sizeof part) continue;
        memcpy(part, at->key, n_part);
        part[n_part] = '\0';
        TRY(read_array(report, at, part, &samples[n++]));
    }
    point->samples = samples;
    point->n_samples = n;
    return read_batches(report, json_get(record, "batch_n"), point);
}
