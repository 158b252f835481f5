/* SPDX-License-Identifier: MIT */
/* What a run writes into a checkpoint. */
#ifndef TRAIN_RUN_CHECKPOINT_CONTENT_H
#define TRAIN_RUN_CHECKPOINT_CONTENT_H

#include "train/run/trainer.h"
#include "train/weights/model_file.h"

/* The attribute of a metric's best value: "best_accuracy". */
typedef struct best_name {
    char text[40];
} best_name_t;
best_name_t checkpoint_best_name(const task_metrics_t *metrics, int metric);

typedef struct trainer_content {
    model_content_t model;
    dataset_hash_t hash;
    best_name_t best_names[TASK_MAX_METRICS];
    char *class_names, *category_ids;
} trainer_content_t;

/* Rank 0, from any thread, not collective. The content at the current position; arrays point into the run's
 * flat buffers. Free with trainer_release_content.
 *
 *   states  running statistics, flat */
err_t trainer_make_content(const trainer_t *t, float *states, trainer_content_t *out);
void trainer_release_content(trainer_content_t *content);

#endif
