/* SPDX-License-Identifier: MIT */
/* Frees a report and formats a point's key. registry.c and records_*.c fill it. */
#include "report/records/report.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"

void report_free(report_t *report)
{
    for (report_run_t *run = report->runs; run; run = run->next) {
        if (!run->train) continue;
        mem_free(&run->train->steps);
        curve_free(&run->train->curve);
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
