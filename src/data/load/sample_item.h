/* SPDX-License-Identifier: MIT */
/* What a task makes a sample's fields from. Only types. */
#ifndef DATA_LOAD_SAMPLE_ITEM_H
#define DATA_LOAD_SAMPLE_ITEM_H

#include "data/annotation/mask.h"
#include "data/image/image.h"
#include "data/transform/canvas.h"

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

#endif
