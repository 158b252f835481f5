/* SPDX-License-Identifier: MIT */
/* Prints an evaluation, and writes it as JSON. */
#include "train/evaluate/evaluation_show.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "base/log.h"
#include "compute/models/model.h"

/* Of classes that have a positive sample. */
static void print_precisions(const dataset_info_t *info, const double *precisions)
{
    int n_without = 0;
    log_info("\naverage precision");
    for (int k = 0; k < info->n_classes; k++) {
        if (isnan(precisions[k]))
            n_without++;
        else
            log_info("  %.4f  %s", precisions[k], info->class_names[k]);
    }
    if (n_without > 0) log_info("  %d classes have no sample here", n_without);
}

static void print_confusion(const dataset_info_t *info, const int64_t *confusion)
{
    char line[512];
    int used = snprintf(line, sizeof line, "\nconfusion  rows: label, columns: prediction\n     ");
    for (int k = 0; k < info->n_classes; k++)
        used += snprintf(line + used, sizeof line - (size_t)used, "%6d", k);
    log_info("%s", line);
    for (int label = 0; label < info->n_classes; label++) {
        used = snprintf(line, sizeof line, "%5d", label);
        for (int k = 0; k < info->n_classes; k++)
            used += snprintf(line + used, sizeof line - (size_t)used, "%6lld",
                             (long long)confusion[label * info->n_classes + k]);
        log_info("%s", line);
    }
}

static bool same_data(const evaluation_about_t *about)
{
    return strcmp(dataset_hash(&about->dataset->info).text, about->data_xxh3) == 0;
}

void evaluation_print(const evaluation_about_t *about, const evaluation_t *eval)
{
    const dataset_info_t *info = &about->dataset->info;
    log_info("checkpoint %s%s", about->checkpoint,
             about->averaged ? " (the moving average of its weights)" : "");
    if (about->compute != DTYPE_F32)
        log_info("precision  %s, as it was trained", model_precision(about->compute));
    log_info("data       %s (%s), %lld %s samples", info->source, about->why_data, (long long)eval->n,
             split_words[about->split]);
    if (!same_data(about)) log_info("           not the data that it was trained with");
    log_info(info->multi_label ? "mAP        %.4f" : "accuracy   %.4f", eval->accuracy);
    if (!isnan(eval->top5)) log_info("top-5      %.4f", eval->top5);
    log_info("loss       %.4f", eval->loss);
    if (eval->precisions) print_precisions(info, eval->precisions);
    if (eval->confusion) print_confusion(info, eval->confusion);
}

static void put_classes(json_t *j, const dataset_info_t *info, const evaluation_t *eval)
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
    json_bool(&j, "data_as_trained", same_data(about));
    json_string(&j, "split", split_names[about->split]);
    json_int(&j, "n_samples", eval->n);
    json_real(&j, info->multi_label ? "map" : "accuracy", eval->accuracy);
    if (!isnan(eval->top5)) json_real(&j, "top5", eval->top5);
    json_real(&j, "loss", eval->loss);
    put_classes(&j, info, eval);
    json_object_end(&j);
    err_t err = json_write_file(&j, path);
    json_free(&j);
    return err;
}
