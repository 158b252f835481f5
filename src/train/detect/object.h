/* SPDX-License-Identifier: MIT */
/* An object that a detector found. Not collective. */
#ifndef TRAIN_DETECT_OBJECT_H
#define TRAIN_DETECT_OBJECT_H

#include "data/annotation/rle.h"
#include "data/image/image.h"

typedef struct detector_object {
    int32_t class; /* an output of the model, > 0 */
    double score;
    double box[4]; /* x, y, width, height in pixels of the image */
    rle_t mask;    /* of the image's size; the detector's memory; empty without masks */
} detector_object_t;

/* From the image as shown to the image as stored.
 *
 *   masks   there is one
 *   bitmap  working memory; starts NULL; mem_free it */
err_t object_to_stored(const image_info_t *info, bool masks, uint8_t **bitmap, detector_object_t *object);

#endif
