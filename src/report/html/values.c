/* SPDX-License-Identifier: MIT */
/* Values of the charts and tables: figures over the starts of a metric. If the page has a comparison, times and
 * rates are those of its table, so that a bar and a verdict never contradict each other. */
#include <math.h>
#include <string.h>

#include "base/stats.h"
#include "report/html/parts.h"
#include "report/records/fields.h"

double html_field_number(report_fields_t fields, const char *name)
{
    const report_field_t *field = fields_find(fields, name);
    return field && field->kind == FIELD_NUMBER ? field->number : NAN;
}

static double value_of_start(const metric_start_t *start, const char *name)
{
    return start->point ? html_field_number(start->point->metrics, name) : NAN;
}

/* Sorts values. */
static html_value_t summarize_values(double *values, int n)
{
    if (n == 0) return (html_value_t){NAN, NAN, NAN, 0, false};
    stats_sort(values, n);
    return (html_value_t){stats_quantile(values, n, 0.5), values[0], values[n - 1], n, false};
}

err_t html_value(html_t *h, const metric_t *metric, const char *name, html_value_t *out)
{
    double *values;
    int n = 0, n_disturbed = 0;
    *out = summarize_values(NULL, 0);
    if (!metric) return ERR_OK;
    TRY(arena_new(&h->arena, sizeof *values * (size_t)(metric->n_starts + 1), &values));
    for (const metric_start_t *start = metric->starts; start; start = start->next) {
        if (!isfinite(value_of_start(start, name))) continue;
        n_disturbed += start->disturbed;
        values[n++] = value_of_start(start, name);
    }
    *out = summarize_values(values, n);
    out->disturbed = n > 0 && 2 * n_disturbed >= n;
    return ERR_OK;
}

/* NAN: not compared. */
static double compared_seconds(const html_item_t *item, int side)
{
    if (!item->compared) return NAN;
    const stats_difference_t *d = &item->compared->difference;
    return side == HTML_BASE ? d->base : d->now;
}

err_t html_seconds(html_t *h, const html_item_t *item, int side, double *out)
{
    double *values;
    int n = 0;
    *out = compared_seconds(item, side);
    if (isfinite(*out) || !item->side[side]) return ERR_OK;
    TRY(arena_new(&h->arena, sizeof *values * (size_t)(item->side[side]->n_starts + 1), &values));
    for (const metric_start_t *start = item->side[side]->starts; start; start = start->next)
        values[n++] = start->p50;
    *out = summarize_values(values, n).middle;
    return ERR_OK;
}

/* The figure that the comparison's time gives: a rate is an amount of work, the same in all starts, per time.
 * Starts that the comparison left out do not disturb it. */
static err_t use_comparison(html_t *h, const html_spec_t *spec, const html_item_t *item, int side,
                            html_value_t *value)
{
    double *work, sec = compared_seconds(item, side);
    int n = 0;
    if (!isfinite(sec)) return ERR_OK;
    TRY(arena_new(&h->arena, sizeof *work * (size_t)(value->n + 1), &work));
    for (const metric_start_t *start = item->side[side]->starts; start && n < value->n; start = start->next)
        if (isfinite(value_of_start(start, spec->figure)))
            work[n++] = value_of_start(start, spec->figure) * start->p50;
    value->middle = summarize_values(work, n).middle / sec;
    value->low = fmin(value->low, value->middle);
    value->high = fmax(value->high, value->middle);
    value->disturbed = value->disturbed && item->compared->n_slowed[side == HTML_NOW] == 0;
    return ERR_OK;
}

/* The 95 % interval of the median of a single start. */
static void use_interval(const html_spec_t *spec, const metric_start_t *start, html_value_t *value)
{
    while (start->next && !isfinite(value_of_start(start, spec->figure))) start = start->next;
    const report_timing_t *timing = start->point ? start->point->timing : NULL;
    value->low = value->high = NAN;
    if (!spec->is_rate || !timing || !(timing->ci_low > 0 && timing->ci_high > 0)) return;
    value->low = value->middle * start->p50 / timing->ci_high;
    value->high = value->middle * start->p50 / timing->ci_low;
}

err_t html_spec_value(html_t *h, const html_spec_t *spec, const html_item_t *item, int side,
                      html_value_t *out)
{
    html_value_t end;
    const metric_t *metric = item->side[side];
    TRY(html_value(h, metric, spec->figure, out));
    if (out->n == 0) return ERR_OK;
    if (spec->low) {
        TRY(html_value(h, metric, spec->low, &end));
        out->low = end.middle;
        TRY(html_value(h, metric, spec->high, &end));
        out->high = end.middle;
    } else if (out->n == 1) {
        use_interval(spec, metric->starts, out);
    }
    return spec->is_rate ? use_comparison(h, spec, item, side, out) : ERR_OK;
}
