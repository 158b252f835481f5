/* SPDX-License-Identifier: MIT */
/* Selects, compares and writes metrics by their table. Measuring them is left to training and to a task's
 * evaluation. */
#include "train/task/metric.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"

task_metrics_t task_metrics_select(const task_metric_t *table, int n_classes, bool masks)
{
    task_metrics_t out = {.main = -1, .plateau = -1};
    for (const task_metric_t *m = table; m->name; m++) {
        if (n_classes <= m->more_classes_than || (m->of_masks && !masks)) continue;
        ASSERT(out.n < TASK_MAX_METRICS);
        if (m->is_main) out.main = out.n;
        if (m->steers_plateau) out.plateau = out.n;
        out.at[out.n++] = m;
    }
    ASSERT(out.main >= 0 && out.plateau >= 0);
    return out;
}

int task_metrics_find(const task_metrics_t *metrics, const char *name)
{
    for (int i = 0; i < metrics->n; i++)
        if (!metrics->at[i]->always_null && strcmp(metrics->at[i]->name, name) == 0) return i;
    return -1;
}

bool task_metric_better(const task_metric_t *metric, double value, double than)
{
    if (isnan(value) || isnan(than)) return !isnan(value);
    return metric->higher_is_better ? value > than : value < than;
}

void task_metrics_json(const task_metrics_t *metrics, const char *prefix, bool training, const double *values,
                       json_t *j)
{
    for (int i = 0; i < metrics->n; i++) {
        char name[64];
        const task_metric_t *m = metrics->at[i];
        if (training ? m->training == TASK_SUM_NONE && !m->always_null : m->training_only) continue;
        snprintf(name, sizeof name, "%s%s", prefix, m->name);
        json_real(j, name, values[i]);
    }
}

void task_metrics_of_training(const task_metrics_t *metrics, const double *sums, double n, double *values)
{
    for (int i = 0; i < metrics->n; i++) {
        const task_metric_t *m = metrics->at[i];
        const double by = m->per_object ? sums[TASK_SUM_OBJECTS] : n;
        values[i] = m->training == TASK_SUM_NONE || !(by > 0) ? NAN : sums[m->training] / by;
    }
}

void task_metrics_describe(const task_metrics_t *metrics, json_t *j)
{
    json_array_begin(j, "metrics");
    for (int i = 0; i < metrics->n; i++) {
        const task_metric_t *m = metrics->at[i];
        if (m->always_null) continue;
        json_object_begin(j, NULL);
        json_string(j, "name", m->name);
        json_string(j, "label", m->label);
        json_string(j, "unit", m->unit == METRIC_FRACTION ? "fraction" : "number");
        json_string(j, "better", m->is_neutral ? "neither" : m->higher_is_better ? "higher" : "lower");
        json_bool(j, "main", m->is_main);
        json_bool(j, "training", m->training != TASK_SUM_NONE);
        if (m->training_only) json_bool(j, "training_only", true);
        if (m->is_detail) json_bool(j, "detail", true);
        json_object_end(j);
    }
    json_array_end(j);
}

void task_metrics_text(const task_metrics_t *metrics, const double *values, char out[TASK_TEXT_MAX])
{
    size_t n = 0;
    out[0] = '\0';
    for (int i = 0; i < metrics->n && n < TASK_TEXT_MAX; i++)
        if (!isnan(values[i]) && !metrics->at[i]->is_detail)
            n += (size_t)snprintf(out + n, TASK_TEXT_MAX - n, "%s%s %.4f", n ? " " : "",
                                  metrics->at[i]->label, values[i]);
}
