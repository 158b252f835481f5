/* SPDX-License-Identifier: MIT */
/* The task crops: each annotated object is a sample, with its class. */
#include "train/task/one_label.h"

const task_t task_crops = {.name = "crops", .id = TASK_CROPS, ONE_LABEL};
