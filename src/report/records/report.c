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

double report_images_per_sec(const report_train_t *train)
{
    if (!isnan(train->images_per_sec)) return train->images_per_sec;
    return train->global_batch / train->step_sec[STEP_TOTAL];
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
