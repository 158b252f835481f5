/* SPDX-License-Identifier: MIT */
/* A report's parts: its fields and their texts, rates, keys, the curve of losses, shares of a time. registry.c and records_*.c
 * fill it. */
#include "report/records/report.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/stats.h"

void report_free(report_t *report)
{
    for (report_run_t *run = report->runs; run; run = run->next) {
        if (!run->train) continue;
        mem_free(&run->train->steps);
        curve_free(&run->train->curve);
        curve_free(&run->train->rates);
        curve_free(&run->train->secs);
    }
    mem_free(&report->files);
    intern_free(&report->words);
    arena_free(&report->arena);
    *report = (report_t){0};
}

report_rates_t report_rates(const report_train_t *train)
{
    report_rates_t rates = {train->images_per_sec, train->median_images_per_sec};
    if (isnan(rates.mean)) rates.mean = train->global_batch / train->mean_step_sec;
    if (isnan(rates.median)) rates.median = train->global_batch / train->step_sec[STEP_TOTAL];
    return rates;
}

err_t report_key_text(arena_t *arena, const report_point_t *point, const char **out)
{
    size_t n = 1;
    char *text = NULL;
    for (int i = 0; i < point->key.n; i++)
        n += strlen(point->key.at[i].name) + 2 + (point->key.at[i].text ? strlen(point->key.at[i].text) : 0);
    TRY(arena_new(arena, n, &text));
    char *end = text;
    *end = '\0';
    for (int i = 0; i < point->key.n; i++) {
        const report_field_t *field = &point->key.at[i];
        end += sprintf(end, "%s%s=%s", i ? ";" : "", field->name, field->text ? field->text : "");
    }
    *out = text;
    return ERR_OK;
}

/* ---- Fields ---- */
const report_field_t *fields_find(report_fields_t fields, const char *name)
{
    /* Names within a report are interned: comparing pointers usually suffices. */
    for (int i = 0; i < fields.n; i++)
        if (fields.at[i].name == name || strcmp(fields.at[i].name, name) == 0) return &fields.at[i];
    return NULL;
}

const char *fields_text(const report_field_t *field, figure_t *room)
{
    const char *unit;
    quantity_t quantity = figure_quantity(field->name, &unit);
    if (field->text && (field->kind == FIELD_TEXT || quantity == QUANTITY_NUMBER)) return field->text;
    *room = figure_of(quantity, field->kind == FIELD_NUMBER ? field->number : NAN);
    return room->text;
}

/* ---- The curve of losses ---- */
typedef struct curve_losses {
    int64_t n;
    struct {
        int64_t step;
        double loss;
    } at[];
} curve_losses_t;

err_t curve_add(curve_t *curve, int64_t step, double loss)
{
    curve_losses_t *losses = curve->losses;
    while (losses && losses->n > 0 && losses->at[losses->n - 1].step >= step) losses->n--;
    size_t n_bytes = sizeof *losses + (size_t)(losses ? losses->n + 1 : 1) * sizeof *losses->at;
    TRY(mem_grow((int64_t)n_bytes, 1, "losses", &curve->losses));
    losses = curve->losses;
    losses->at[losses->n].step = step;
    losses->at[losses->n++].loss = loss;
    return ERR_OK;
}

/* Adds the point of an interval of steps. *i: its first loss; on return, that of the next interval. */
static void add_interval(curve_t *curve, int64_t *i, double end, double *sorted, curve_point_t *at)
{
    const curve_losses_t *losses = curve->losses;
    int64_t n = 0, first = losses->at[*i].step, last = first;
    for (; *i < losses->n && (double)losses->at[*i].step < end; ++*i) {
        last = losses->at[*i].step;
        if (isfinite(losses->at[*i].loss))
            sorted[n++] = losses->at[*i].loss;
        else
            curve->n_invalid++;
    }
    if (n == 0) return;
    stats_sort(sorted, n);
    at[curve->n++] = (curve_point_t){.step = ((double)first + (double)last) / 2,
                                     .low = sorted[0],
                                     .median = stats_quantile(sorted, n, 0.5),
                                     .high = sorted[n - 1]};
}

err_t curve_finish(curve_t *curve, arena_t *arena)
{
    const curve_losses_t *losses = curve->losses;
    curve_point_t *at = NULL;
    double *sorted;
    if (!losses) return ERR_OK;
    double first = (double)losses->at[0].step, last = (double)losses->at[losses->n - 1].step;
    double range = last - first + 1, length = range / fmin(range, CURVE_MAX);
    TRY(arena_new(arena, CURVE_MAX * sizeof *at, &at));
    TRY(mem_new_array(losses->n, sizeof *sorted, "losses", &sorted));
    curve->n = 0;
    curve->n_invalid = 0;
    for (int64_t i = 0; i < losses->n;) {
        double k = floor(((double)losses->at[i].step - first) / length);
        double end = first + (k + 1) * length;
        /* Steps beyond 2^53 are not distinct as doubles. */
        if (curve->n == CURVE_MAX || !(end > (double)losses->at[i].step)) break;
        add_interval(curve, &i, end, sorted, at);
    }
    curve->at = at;
    mem_free(&sorted);
    curve_free(curve);
    return ERR_OK;
}

void curve_free(curve_t *curve)
{
    mem_free(&curve->losses);
}

/* ---- Shares of the parts of a time ---- */
err_t split_shares(const double *total, const double *const *parts, int n_parts, int64_t n, double *shares)
{
    double *sorted, sum = 0;
    for (int part = 0; part < n_parts; part++) shares[part] = NAN;
    if (n == 0) return ERR_OK;
    TRY(mem_new_array(n, sizeof *sorted, "samples", &sorted));
    memcpy(sorted, total, (size_t)n * sizeof *sorted);
    stats_sort(sorted, n);
    /* Samples themselves, not interpolated quantiles: at least one sample is between them. */
    double low = sorted[n / 4], high = sorted[n - 1 - n / 4];
    mem_free(&sorted);
    for (int64_t i = 0; i < n; i++) {
        if (total[i] < low || total[i] > high) continue;
        sum += total[i];
        for (int part = 0; part < n_parts; part++)
            if (isfinite(parts[part][i]))
                shares[part] = parts[part][i] + (isnan(shares[part]) ? 0 : shares[part]);
    }
    for (int part = 0; part < n_parts; part++) shares[part] /= sum;
    return ERR_OK;
}
