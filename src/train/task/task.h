/* SPDX-License-Identifier: MIT */
/* Tasks: what a model is trained for (--task). Each is a table in a file of its own; registry.c lists them.
 * Not collective. */
#ifndef TRAIN_TASK_TASK_H
#define TRAIN_TASK_TASK_H

#include "data/dataset/dataset.h"
#include "train/task/metric.h"

typedef struct task {
    const char *name;             /* of --task */
    const task_metric_t *metrics; /* ends with a NULL name */
} task_t;

/* The task of a dataset's samples. */
const task_t *task_of(const dataset_info_t *info);

/* The metrics of a dataset's task. */
task_metrics_t task_metrics(const dataset_info_t *info);

#endif
