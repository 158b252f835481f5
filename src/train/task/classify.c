/* SPDX-License-Identifier: MIT */
/* The task classify: one class per image. */
#include "train/task/one_label.h"

const task_t task_classify = {.name = "classify", .id = TASK_CLASSIFY, .whole_images = true, ONE_LABEL};
