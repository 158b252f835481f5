/* SPDX-License-Identifier: MIT */
/* Logs an evaluation and writes it as JSON. Computing it is left to evaluate.c. */
#include "train/evaluate/evaluation_show.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "base/log.h"
#include "base/table.h"
#include "compute/models/model.h"

static void log_precisions(const dataset_info_t *info, const double *precisions)
{
    table_t table = {.columns = {{NULL, true}, {NULL, true}}, .n_columns = 2, .indent = 2};
    int n_without = 0;
    table_section(&table, "average precision");
    for (int k = 0; k < info->n_classes; k++) {
        if (isnan(precisions[k])) {
            n_without++;
            continue;
        }
        table_cell(&table, "%.4f", precisions[k]);
        table_cell(&table, "%s", info->class_names[k]);
    }
    log_info("%s", "");
    table_log(&table);
    table_free(&table);
    if (n_without > 0)
        log_info("  %d class%s no positive sample", n_without, n_without == 1 ? " has" : "es have");
}

/* Rows have the classes' names; columns too, if all are short. */
static void log_confusion(int n, const char *const *names, const int64_t *confusion)
{
    enum { MAX_HEADINGS = 80 };
    int n_text = 0;
    char headings[TABLE_MAX_COLUMNS][12];
    table_t table = {.n_columns = 1 + n};
    ASSERT(n < TABLE_MAX_COLUMNS);
    table.columns[0].min_width = 5;
    for (int k = 0; names && k < n; k++) n_text += 2 + table_text_width(names[k]);
    table.columns[0].is_text = names != NULL;
    for (int k = 0; k < n; k++) {
        snprintf(headings[k], sizeof headings[k], "%d", k);
        table.columns[1 + k] = (table_column_t){
            .heading = n_text <= MAX_HEADINGS && names ? names[k] : headings[k], .min_width = 4};
    }
    for (int label = 0; label < n; label++) {
        if (!names)
            table_cell(&table, "%d", label);
        else if (n_text <= MAX_HEADINGS)
            table_cell(&table, "%s", names[label]);
        else
            table_cell(&table, "%d %s", label, names[label]);
        for (int k = 0; k < n; k++) table_cell(&table, "%lld", (long long)confusion[label * n + k]);
    }
    log_info("\nconfusion  rows: label, columns: prediction");
    table_log(&table);
    table_free(&table);
}

static bool has_training_data(const evaluation_about_t *about)
{
    return strcmp(dataset_hash(&about->dataset->info).text, about->data_xxh3) == 0;
}

void evaluation_print(const evaluation_about_t *about, const evaluation_t *eval)
{
    const dataset_info_t *info = &about->dataset->info;
    table_t t = {.columns = {{NULL, true, .min_width = 9}, {NULL, true}}, .n_columns = 2};
    table_cell(&t, about->weights ? "weights" : "checkpoint");
    table_cell(&t, "%s%s", about->checkpoint, about->averaged ? " (moving average of its weights)" : "");
    if (about->compute != DTYPE_F32) {
        table_cell(&t, "precision");
        table_cell(&t, "%s, as in training", model_precision(about->compute));
    }
    table_cell(&t, "data");
    table_cell(&t, "%s (%s), %lld %s samples", info->source, about->why_data, (long long)eval->n,
               split_words[about->split]);
    if (!about->weights && !has_training_data(about)) {
        table_cell(&t, "%s", "");
        table_cell(&t, "not the data that the model was trained on");
    }
    /* The first metric, the loss, comes last. */
    for (int k = 1; k <= about->metrics->n; k++) {
        int i = k % about->metrics->n;
        if (about->metrics->at[i]->always_null) continue;
        table_cell(&t, "%s", about->metrics->at[i]->label);
        table_cell(&t, "%.4f", eval->values[i]);
    }
    table_log(&t);
    table_free(&t);
    if (eval->precisions) log_precisions(info, eval->precisions);
    if (eval->confusion) log_confusion(info->n_classes, about->class_names, eval->confusion);
}

static void json_classes(json_t *j, const dataset_info_t *info, const evaluation_t *eval)
{
    if (eval->precisions) {
        json_array_begin(j, "average_precision");
        for (int k = 0; k < info->n_classes; k++) json_real(j, NULL, eval->precisions[k]);
        json_array_end(j);
    }
    if (!eval->confusion) return;
    json_array_begin(j, "confusion");
    for (int label = 0; label < info->n_classes; label++) {
        json_array_begin(j, NULL);
        for (int k = 0; k < info->n_classes; k++)
            json_int(j, NULL, eval->confusion[label * info->n_classes + k]);
        json_array_end(j);
    }
    json_array_end(j);
}

err_t evaluation_write_json(const evaluation_about_t *about, const evaluation_t *eval, const char *path)
{
    const dataset_info_t *info = &about->dataset->info;
    json_t j = {0};
    json_object_begin(&j, NULL);
    json_string(&j, "record", "eval");
    json_string(&j, "checkpoint", about->checkpoint);
    json_bool(&j, "averaged", about->averaged);
    json_string(&j, "precision", model_precision(about->compute));
    json_string(&j, "data", info->source);
    if (!about->weights) json_bool(&j, "matches_training_data", has_training_data(about));
    json_string(&j, "split", split_names[about->split]);
    json_int(&j, "n_samples", eval->n);
    for (int i = 0; i < about->metrics->n; i++)
        if (!about->metrics->at[i]->always_null) json_real(&j, about->metrics->at[i]->name, eval->values[i]);
    json_classes(&j, info, eval);
    json_object_end(&j);
    err_t err = json_write_file(&j, path);
    json_free(&j);
    return err;
}
