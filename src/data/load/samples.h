/* SPDX-License-Identifier: MIT */
/* How each task makes samples of a source's images: one per image or per annotated object, and the fields of
 * their batches. The other half of a task is in train/task. Not collective; thread-safe. */
#ifndef DATA_LOAD_SAMPLES_H
#define DATA_LOAD_SAMPLES_H

#include "data/annotation/mask.h"
#include "data/image/image.h"
#include "data/source/source.h"
#include "data/transform/canvas.h"

typedef struct sample_ref {
    int32_t image;  /* index within the split */
    int32_t object; /* TASK_CROPS: index within the image; TASK_DETECT: the number of its objects */
} sample_ref_t;

/* Which samples a dataset has, where they are not simply the source's images. Starts zeroed; mem_free each of `of`. */
typedef struct sample_list {
    sample_ref_t *of[SPLIT_COUNT]; /* NULL: the images */
    int64_t n[SPLIT_COUNT];
    /* TASK_DETECT. */
    dataset_objects_t objects;
    canvases_t canvases; /* the settings', with those of all images if they are exact */
} sample_list_t;

/* How an image is shown on its canvas. */
typedef struct detection_view {
    image_info_t info;
    int64_t image; /* number within the split's images */
    canvas_place_t place;
    bool flipped;
} detection_view_t;

/* Working memory of TASK_DETECT; starts zeroed. */
typedef struct detection_scratch {
    mask_scratch_t mask;
    rle_t rle;
} detection_scratch_t;

typedef struct samples_item {
    const sample_t *sample;
    const char *name;             /* of the image, for messages */
    const annotation_t *object;   /* the sample's; NULL: the whole image */
    const detection_view_t *view; /* TASK_DETECT */
    const int32_t *outputs;       /* TASK_DETECT: the class of each category */
    detection_scratch_t *scratch; /* TASK_DETECT */
} samples_item_t;

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
