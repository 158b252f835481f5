/* SPDX-License-Identifier: MIT */
/* Selects, compares and writes metrics by their table; computes those of ranked scores. Measuring the others is left to
 * training and to a task's evaluation. */
#include "train/task/metric.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"

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

void task_put(const task_metrics_t *metrics, const char *name, double value, double *values)
{
    int i = task_metrics_find(metrics, name);
    if (i >= 0) values[i] = value;
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

typedef struct ranked {
    float score;
    bool positive;
} ranked_t;

/* Descending, NaN last. */
static int by_score(const void *pa, const void *pb)
{
    const ranked_t *a = pa, *b = pb;
    if (isnan(a->score) || isnan(b->score)) return !!isnan(a->score) - !!isnan(b->score);
    return (a->score < b->score) - (a->score > b->score);
}

/* ranked: scratch space for n. */
static double column_precision(const float *scores, const float *targets, int64_t n, int64_t stride,
                               ranked_t *ranked)
{
    int64_t n_positive = 0;
    for (int64_t i = 0; i < n; i++) {
        ranked[i] = (ranked_t){scores[i * stride], targets[i * stride] > 0.5f};
        n_positive += ranked[i].positive;
    }
    if (n_positive == 0) return NAN;
    qsort(ranked, (size_t)n, sizeof *ranked, by_score);
    int64_t n_found = 0;
    double sum = 0;
    for (int64_t i = 0; i < n;) {
        int64_t n_new = 0, first = i;
        for (; i < n && by_score(&ranked[first], &ranked[i]) == 0; i++) n_new += ranked[i].positive;
        n_found += n_new;
        sum += (double)n_new * (double)n_found / (double)i;
    }
    return sum / (double)n_positive;
}

err_t average_precision(const float *scores, const float *targets, int64_t n, int64_t stride, double *out)
{
    ranked_t *ranked;
    TRY(mem_new_array(n, sizeof *ranked, "average precision", &ranked));
    *out = column_precision(scores, targets, n, stride, ranked);
    mem_free(&ranked);
    return ERR_OK;
}

err_t average_precision_of_classes(const float *scores, const float *targets, int64_t n, int n_classes,
                                   double *precisions, double *mean)
{
    ranked_t *ranked;
    int n_seen = 0;
    double sum = 0;
    TRY(mem_new_array(n, sizeof *ranked, "average precision", &ranked));
    for (int k = 0; k < n_classes; k++) {
        precisions[k] = column_precision(scores + k, targets + k, n, n_classes, ranked);
        if (isnan(precisions[k])) continue;
        sum += precisions[k];
        n_seen++;
    }
    mem_free(&ranked);
    *mean = n_seen > 0 ? sum / n_seen : NAN;
    return ERR_OK;
}

bool top_k_holds(const float *scores, int n_classes, int label, int k)
{
    int n_before = 0;
    if (isnan(scores[label])) return false;
    for (int i = 0; i < n_classes; i++)
        n_before += scores[i] > scores[label] || (i < label && scores[i] >= scores[label]);
    return n_before < k;
}

err_t task_gather(comm_t *comm, const void *mine, int64_t n_bytes, const char *what, void *all,
                  int64_t *n_all)
{
    void **out = all;
    int64_t *sizes;
    TRY(mem_new_array(comm->size, sizeof *sizes, what, &sizes));
    err_t err = comm_allgather(comm, &n_bytes, sizeof n_bytes, sizes, what);
    *n_all = 0;
    for (int r = 0; r < comm->size; r++) *n_all += sizes[r];
    if (err == ERR_OK) err = comm_agree(comm, mem_new((size_t)*n_all, what, out), what);
    if (err == ERR_OK) err = comm_allgatherv(comm, mine, sizes, *out, what);
    mem_free(&sizes);
    return err;
}
