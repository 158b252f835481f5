/* SPDX-License-Identifier: MIT */
/* How each task makes samples of a source's images: one per image or per annotated object, and the fields of
 * their batches. The other half of a task is in train/task. Not collective; thread-safe. */
#ifndef DATA_LOAD_SAMPLES_H
#define DATA_LOAD_SAMPLES_H

#include "data/annotation/sample.h"
#include "data/dataset/dataset.h"

typedef struct samples_ops {
    bool annotated;  /* needs annotations; otherwise each image has a label */
    bool of_objects; /* a sample is an annotated object (object_crops.h); otherwise an image */
    /* Lists the fields of a dataset's samples. */
    void (*fields)(const dataset_info_t *info, fields_t *out);
    /* Writes a sample's fields, in that order. ERR_DATA naming the image: annotations that do not fit.
     *
     *   object  the sample's annotation; NULL: the whole image
     *   name    of the image, for messages */
    err_t (*fill)(const dataset_info_t *info, const sample_t *sample, const annotation_t *object,
                  const char *name, const field_place_t *out);
} samples_ops_t;

/* The table of a task; TASK_AUTO, of images in memory, is TASK_CLASSIFY. */
const samples_ops_t *samples_of(transform_task_t task);

/* The fields of a dataset's samples. */
fields_t samples_fields(const dataset_info_t *info);

#endif
