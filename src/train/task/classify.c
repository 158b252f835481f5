/* SPDX-License-Identifier: MIT */
/* The task classify: one class per sample. */
#include "train/task/task.h"

/* With few classes, the confusion matrix says more than the five best scores. */
enum { FEW_CLASSES = 20 };

static const task_metric_t metrics[] = {
    {.name = "loss", .label = "loss", .training = TASK_SUM_LOSS, .steers_plateau = true},
    {.name = "accuracy",
     .label = "accuracy",
     .brief = "acc",
     .unit = METRIC_FRACTION,
     .higher_is_better = true,
     .is_main = true,
     .training = TASK_SUM_CORRECT},
    {.name = "top5",
     .label = "top-5",
     .unit = METRIC_FRACTION,
     .higher_is_better = true,
     .training = TASK_SUM_NONE,
     .more_classes_than = FEW_CLASSES},
    {.name = NULL},
};

const task_t task_classify = {.name = "classify", .metrics = metrics};
