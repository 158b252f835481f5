/* SPDX-License-Identifier: MIT */
/* The metrics of a training run: the table in its `run` record, and their values in its epochs. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "report/records/records.h"

enum { NAME_MAX_BYTES = 40 };

/* Of records without a table (earlier versions): the first two always, the others if recorded. */
static const report_metric_t earlier[] = {
    {.name = "loss", .label = "loss", .train = true, .val = true},
    {.name = "accuracy",
     .label = "accuracy",
     .is_fraction = true,
     .higher_is_better = true,
     .train = true,
     .val = true},
    {.name = "map", .label = "mAP", .is_fraction = true, .higher_is_better = true},
    {.name = "top5", .label = "top-5", .is_fraction = true, .higher_is_better = true},
};
enum { EARLIER_ACCURACY = 1, EARLIER_MAP = 2 };

void train_metrics_begin(report_train_t *train)
{
    memcpy(train->metrics, earlier, sizeof earlier);
    train->n_metrics = sizeof earlier / sizeof *earlier;
    train->main_metric = EARLIER_ACCURACY;
}

/* The metric of that name, new if there is none; NULL: too many. */
static report_metric_t *find_or_add(report_train_t *train, const char *name)
{
    for (int i = 0; i < train->n_metrics; i++)
        if (strcmp(train->metrics[i].name, name) == 0) return &train->metrics[i];
    if (train->n_metrics == REPORT_MAX_METRICS) return NULL;
    /* Epochs that were read before the run resumed have no value of it. */
    for (report_epoch_t *epoch = train->epochs; epoch; epoch = epoch->next)
        epoch->train[train->n_metrics] = epoch->val[train->n_metrics] = NAN;
    return &train->metrics[train->n_metrics++];
}

static bool is_true(const json_value_t *object, const char *key)
{
    const json_value_t *value = json_get(object, key);
    return value && value->kind == JSON_BOOL && value->truth;
}

static bool text_is(const json_value_t *object, const char *key, const char *text)
{
    const char *value;
    return json_get_text(object, key, &value) && strcmp(value, text) == 0;
}

err_t train_metrics_read(const report_input_t *in, report_train_t *train)
{
    const json_value_t *table = json_get(in->record, "metrics");
    const char *name;
    if (!table || table->kind != JSON_ARRAY) return ERR_OK;
    train->metrics_recorded = true;
    for (int i = 0; i < train->n_metrics; i++) train->metrics[i].train = train->metrics[i].val = false;
    for (const json_value_t *at = table->first; at; at = at->next) {
        const char *label = NULL;
        if (!json_get_text(at, "name", &name) || !name[0] || strlen(name) >= NAME_MAX_BYTES) continue;
        report_metric_t *metric = find_or_add(train, name);
        if (!metric) break;
        *metric = (report_metric_t){.is_fraction = text_is(at, "unit", "fraction"),
                                    .higher_is_better = text_is(at, "better", "higher"),
                                    .is_neutral = text_is(at, "better", "neither"),
                                    .train = is_true(at, "training"),
                                    .val = !is_true(at, "training_only"),
                                    .is_detail = is_true(at, "detail")};
        if (!json_get_text(at, "label", &label) || !label[0]) label = name;
        TRY(intern_text(&in->report->words, name, &metric->name));
        TRY(intern_text(&in->report->words, label, &metric->label));
        if (is_true(at, "main")) train->main_metric = (int)(metric - train->metrics);
    }
    return ERR_OK;
}

/* Of an earlier version, a run with a mean average precision had no accuracy to show. */
static void note_earlier(report_train_t *train, const report_epoch_t *epoch)
{
    for (int i = EARLIER_MAP; i < train->n_metrics; i++)
        if (isfinite(epoch->val[i])) train->metrics[i].val = true;
    if (train->metrics[EARLIER_MAP].val) train->main_metric = EARLIER_MAP;
}

void train_metrics_read_epoch(const report_input_t *in, report_train_t *train, report_epoch_t *epoch)
{
    for (int i = 0; i < train->n_metrics; i++) {
        char field[NAME_MAX_BYTES + 8];
        snprintf(field, sizeof field, "train_%s", train->metrics[i].name);
        epoch->train[i] = report_get_real(in, field);
        snprintf(field, sizeof field, "val_%s", train->metrics[i].name);
        epoch->val[i] = report_get_real(in, field);
    }
    if (!train->metrics_recorded) note_earlier(train, epoch);
}

figure_t report_metric_figure(const report_metric_t *metric, double value)
{
    return metric->is_fraction ? figure_percent(value) : figure_number(value);
}

double report_best(const report_train_t *train, int metric)
{
    bool higher = train->metrics[metric].higher_is_better;
    double best = NAN;
    for (const report_epoch_t *epoch = train->epochs; epoch; epoch = epoch->next)
        best = higher ? fmax(best, epoch->val[metric]) : fmin(best, epoch->val[metric]);
    return best;
}
