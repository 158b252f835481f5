/* SPDX-License-Identifier: MIT */
/* Shared by the tasks whose samples have one class: metrics, loss, evaluation, picture. Contracts: task.h. */
#ifndef TRAIN_TASK_ONE_LABEL_H
#define TRAIN_TASK_ONE_LABEL_H

#include "train/task/task.h"

extern const task_metric_t one_label_metrics[];

void one_label_set_model(model_options_t *options);
bool one_label_fits(const graph_t *graph);
double one_label_probability(const float *logits, int n_classes, int k);
err_t one_label_open(task_evaluation_t *e);
void one_label_close(task_evaluation_t *e);
void one_label_begin(task_evaluation_t *e);
err_t one_label_add(task_evaluation_t *e, const task_batch_t *batch);
err_t one_label_end(task_evaluation_t *e, double *values);
void one_label_print(const task_evaluation_t *e, const char *const *class_names);
void one_label_json(const task_evaluation_t *e, json_t *j);
err_t one_label_draw(const task_evaluation_t *e, const char *const *names, const char *model, page_t **out,
                     char shown[TASK_PICTURE_TEXT_MAX]);

#define ONE_LABEL                                                                                            \
    .about = "one class each", .metrics = one_label_metrics, .set_model = one_label_set_model,               \
    .fits = one_label_fits, .probability = one_label_probability, .open = one_label_open,                    \
    .close = one_label_close, .begin = one_label_begin, .add = one_label_add, .end = one_label_end,          \
    .print = one_label_print, .json = one_label_json, .draw = one_label_draw

#endif
