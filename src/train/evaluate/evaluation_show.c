/* SPDX-License-Identifier: MIT */
/* Logs an evaluation and writes it as JSON. Computing it is left to evaluate.c. */
#include "train/evaluate/evaluation_show.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/print.h"
#include "base/record.h"
#include "base/table.h"
#include "compute/models/model.h"

static bool has_training_data(const evaluation_about_t *about)
{
    return strcmp(dataset_hash(&about->evaluator->dataset->info).text, about->data_xxh3) == 0;
}

void evaluation_print(const evaluation_about_t *about, const evaluation_t *eval)
{
    const dataset_info_t *info = &about->evaluator->dataset->info;
    const task_metrics_t *metrics = &about->evaluator->metrics;
    table_t t = {.columns = {{NULL, true, .min_width = 9}, {NULL, true}}, .n_columns = 2};
    table_cell(&t, about->weights ? "weights" : "checkpoint");
    table_cell(&t, "%s%s", about->checkpoint, about->averaged ? " (moving average of its weights)" : "");
    if (about->input && about->input[0]) {
        table_cell(&t, "images");
        table_cell(&t, "%s", about->input);
    }
    if (about->compute != DTYPE_F32) {
        table_cell(&t, "precision");
        table_cell(&t, "%s, as in training", model_precision(about->compute));
    }
    table_cell(&t, "data");
    table_cell(&t, "%s (%s), %lld %s samples", info->source, about->why_data, (long long)eval->n,
               split_words[about->evaluator->options.split]);
    int n;
    for (const char *rest = info->about, *line; (line = print_next_line(&rest, &n));) {
        table_cell(&t, "%s", "");
        table_cell(&t, "%.*s", n, line);
    }
    if (!about->weights && !has_training_data(about)) {
        table_cell(&t, "%s", "");
        table_cell(&t, "not the data that the model was trained on");
    }
    /* The first metric, the loss, comes last. */
    for (int k = 1; k <= metrics->n; k++) {
        int i = k % metrics->n;
        if (metrics->at[i]->always_null) continue;
        table_cell(&t, "%s", metrics->at[i]->label);
        table_cell(&t, "%.4f", eval->values[i]);
    }
    table_log(&t);
    table_free(&t);
    about->evaluator->task->print(&about->evaluator->evaluation, about->class_names);
}

err_t evaluation_write_json(const evaluation_about_t *about, const evaluation_t *eval, const char *path)
{
    const dataset_info_t *info = &about->evaluator->dataset->info;
    const task_metrics_t *metrics = &about->evaluator->metrics;
    json_t j = {0};
    json_record_begin(&j, RECORD_EVAL);
    json_string(&j, "checkpoint", about->checkpoint);
    json_bool(&j, "averaged", about->averaged);
    json_string(&j, "precision", model_precision(about->compute));
    json_string(&j, "data", info->source);
    if (!about->weights) json_bool(&j, "matches_training_data", has_training_data(about));
    json_string(&j, "split", split_names[about->evaluator->options.split]);
    json_int(&j, "n_samples", eval->n);
    for (int i = 0; i < metrics->n; i++)
        if (!metrics->at[i]->always_null) json_real(&j, metrics->at[i]->name, eval->values[i]);
    about->evaluator->task->json(&about->evaluator->evaluation, &j);
    json_object_end(&j);
    err_t err = json_write_file(&j, path);
    json_free(&j);
    return err;
}
