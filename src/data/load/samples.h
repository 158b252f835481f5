/* SPDX-License-Identifier: MIT */
/* How each task makes samples of a source's images: one per image or per annotated object, and the fields of
 * their batches. The other half of a task is in train/task. Not collective; thread-safe. */
#ifndef DATA_LOAD_SAMPLES_H
#define DATA_LOAD_SAMPLES_H

#include "data/load/sample_item.h"
#include "data/load/sample_list.h"

typedef struct samples_ops {
    bool annotated;  /* needs annotations; otherwise each image has a label */
    bool of_objects; /* a sample is an annotated object; otherwise an image */
    bool on_canvas;  /* with a detection_view_t; otherwise in a square */
    bool one_label;  /* a sample has one of the classes: there have to be two */
    /* Lists the samples. NULL: the images. watch: may be NULL. */
    err_t (*list)(const source_t *source, const transform_settings_t *settings, const open_watch_t *watch,
                  sample_list_t *out);
    const char *none; /* what a training set without samples lacks */
    /* Lists the fields of a dataset's samples. */
    void (*fields)(const dataset_info_t *info, fields_t *out);
    /* Writes a sample's fields, in that order. ERR_DATA naming the image: annotations that do not fit. */
    err_t (*fill)(const dataset_info_t *info, const samples_item_t *item, const field_place_t *out);
} samples_ops_t;

/* The table of a task; TASK_AUTO, of images in memory, is TASK_CLASSIFY. */
const samples_ops_t *samples_of(transform_task_t task);

/* The fields of a dataset's samples. */
fields_t samples_fields(const dataset_info_t *info);

#endif
