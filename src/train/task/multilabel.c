/* SPDX-License-Identifier: MIT */
/* The task multilabel: any number of classes per image. */
#include "train/task/task.h"

static const task_metric_t metrics[] = {
    {.name = "loss", .label = "loss", .training = TASK_SUM_LOSS, .steers_plateau = true},
    {.name = "accuracy", .label = "accuracy", .training = TASK_SUM_NONE, .always_null = true},
    {.name = "map",
     .label = "mAP",
     .unit = METRIC_FRACTION,
     .higher_is_better = true,
     .is_main = true,
     .training = TASK_SUM_NONE},
    {.name = NULL},
};

const task_t task_multilabel = {.name = "multilabel", .metrics = metrics};
