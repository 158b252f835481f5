/* SPDX-License-Identifier: MIT */
/* Compares the samples of a metric and its parts, and attributes a change to a part. report/stats/compare.c
 * has the test. */
#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "base/stats.h"
#include "report/regress/compare_work.h"

static const report_samples_t *find_part(const metric_start_t *start, const char *part)
{
    for (int i = 0; i < start->n_samples; i++)
        if (strcmp(start->samples[i].part, part) == 0) return &start->samples[i];
    return NULL;
}

static bool all_have(const compare_starts_t *starts, const char *part)
{
    for (int side = 0; side < 2; side++)
        for (int i = 0; i < starts->n[side]; i++)
            if (!find_part(starts->at[side][i], part)) return false;
    return true;
}

static bool are_times(const compare_starts_t *starts, const char *part)
{
    for (int side = 0; side < 2; side++)
        for (int i = 0; i < starts->n[side]; i++) {
            const report_samples_t *samples = find_part(starts->at[side][i], part);
            for (int64_t k = 0; k < samples->n; k++)
                if (!isfinite(samples->sec[k]) || samples->sec[k] <= 0) return false;
        }
    return true;
}

/* Median of the starts' medians, ignoring non-finite samples; NAN: none left. */
static err_t plain_median(const compare_starts_t *starts, int side, const char *part, double *out)
{
    double *medians, *sorted = NULL;
    err_t err = ERR_OK;
    int n_medians = 0;
    TRY(mem_new_array(starts->n[side], sizeof *medians, "medians", &medians));
    for (int i = 0; i < starts->n[side]; i++) {
        const report_samples_t *samples = find_part(starts->at[side][i], part);
        int64_t n = 0;
        TRY_OUT(err, mem_new_array(samples->n, sizeof *sorted, "samples", &sorted));
        for (int64_t k = 0; k < samples->n; k++)
            if (isfinite(samples->sec[k])) sorted[n++] = samples->sec[k];
        if (n > 0) medians[n_medians++] = stats_median(sorted, n);
        mem_free(&sorted);
    }
    *out = n_medians > 0 ? stats_median(medians, n_medians) : NAN;
out:
    mem_free(&medians);
    return err;
}

static const stats_difference_t unknown = {.base = NAN,
                                           .now = NAN,
                                           .ratio = NAN,
                                           .low = NAN,
                                           .high = NAN,
                                           .error = NAN,
                                           .u = NAN,
                                           .p_rank = NAN,
                                           .p = NAN};

static err_t plain_difference(const compare_starts_t *starts, const char *part, stats_difference_t *out)
{
    *out = unknown;
    TRY(plain_median(starts, 0, part, &out->base));
    return plain_median(starts, 1, part, &out->now);
}

err_t compare_samples(compare_work_t *work, const compare_starts_t *starts, const char *part,
                      stats_difference_t *out)
{
    const compare_options_t *o = work->options;
    const stats_compare_options_t options = {.alpha = o->alpha,
                                             .start_spread = COMPARE_START_SPREAD,
                                             .n_resamples = o->n_resamples,
                                             .seed = o->seed};
    stats_run_t *runs[2] = {NULL, NULL};
    err_t err;
    *out = unknown;
    if (starts->n[0] == 0 || starts->n[1] == 0) return ERR_OK;
    if (!are_times(starts, part)) return plain_difference(starts, part, out);
    for (int side = 0; side < 2; side++) {
        TRY_OUT(err, mem_new_array(starts->n[side], sizeof *runs[side], "starts", &runs[side]));
        for (int i = 0; i < starts->n[side]; i++) {
            const metric_start_t *start = starts->at[side][i];
            const report_samples_t *samples = find_part(start, part);
            runs[side][i] = (stats_run_t){samples->sec, samples->n, start->batch_n, start->n_batches};
        }
    }
    err = stats_compare(runs[0], starts->n[0], runs[1], starts->n[1], starts->interleaved, &options, out);
    if (starts->identical) {
        out->ratio = out->low = out->high = out->p_rank = out->p = 1;
        out->error = 0;
        out->assumed = false;
    }
out:
    for (int side = 0; side < 2; side++) mem_free(&runs[side]);
    return err;
}

static double change_of(const stats_difference_t *difference)
{
    return difference->now - difference->base;
}

/* What the parts leave of the whole, so that they add up to it: time outside of them, and the difference between
 * the sum of their medians and the median of the whole. */
static compare_part_t remaining_part(const compare_metric_t *metric, const compare_part_t *parts)
{
    compare_part_t other = {.name = "other", .difference = unknown, .share = 1};
    stats_difference_t *d = &other.difference;
    d->base = metric->difference.base, d->now = metric->difference.now;
    for (int i = 0; i < metric->n_parts; i++) {
        d->base -= parts[i].difference.base;
        d->now -= parts[i].difference.now;
        other.share -= parts[i].share;
    }
    if (d->base > 0 && d->now > 0) d->ratio = d->now / d->base;
    return other;
}

err_t compare_parts(compare_work_t *work, const compare_starts_t *starts, compare_metric_t *metric)
{
    compare_part_t *parts;
    double whole = change_of(&metric->difference);
    if (starts->n[0] == 0 || starts->n[1] == 0 || starts->at[0][0]->n_samples < 2) return ERR_OK;
    const metric_start_t *first = starts->at[0][0];
    TRY(arena_new(&work->out->arena, sizeof *parts * (size_t)(first->n_samples + 1), &parts));
    for (int i = 1; i < first->n_samples; i++) {
        compare_part_t *part = &parts[metric->n_parts];
        *part = (compare_part_t){.name = first->samples[i].part, .share = NAN};
        if (!all_have(starts, part->name)) continue;
        TRY(compare_samples(work, starts, part->name, &part->difference));
        if (fabs(whole) > 0) part->share = change_of(&part->difference) / whole;
        metric->n_parts++;
    }
    if (metric->n_parts > 0) {
        parts[metric->n_parts] = remaining_part(metric, parts);
        metric->n_parts++;
    }
    metric->parts = parts;
    if (metric->verdict != VERDICT_WORSE && metric->verdict != VERDICT_BETTER) return ERR_OK;
    for (int i = 0; i < metric->n_parts; i++)
        if (parts[i].share > 0 && !(metric->attributed_to && parts[i].share <= metric->attributed_to->share))
            metric->attributed_to = &parts[i];
    return ERR_OK;
}
