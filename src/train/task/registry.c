/* SPDX-License-Identifier: MIT */
/* The tasks, and the choice of a dataset's. */
#include "train/task/task.h"

extern const task_t task_classify, task_multilabel;

const task_t *task_of(const dataset_info_t *info)
{
    return info->multi_label ? &task_multilabel : &task_classify;
}

task_metrics_t task_metrics(const dataset_info_t *info)
{
    return task_metrics_select(task_of(info)->metrics, info->n_classes);
}
