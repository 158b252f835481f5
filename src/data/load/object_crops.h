/* SPDX-License-Identifier: MIT */
/* The samples of --task crops: one per annotated object, except crowds and objects of less than
 * TRANSFORM_MIN_AREA pixels. Not collective. */
#ifndef DATA_LOAD_OBJECT_CROPS_H
#define DATA_LOAD_OBJECT_CROPS_H

#include "data/image/image.h"
#include "data/source/source.h"

typedef struct object_crop {
    int32_t image, annotation; /* index within the split; within the image */
} object_crop_t;

/* Starts zeroed. */
typedef struct object_crops {
    object_crop_t *of[SPLIT_COUNT];
} object_crops_t;

/* Reads every annotation of the source. n: [SPLIT_COUNT], the number of objects in each split. */
err_t object_crops_find(const source_t *source, object_crops_t *crops, int64_t *n);
void object_crops_free(object_crops_t *crops);

/* Appends the objects to a saved source; *bytes and *n_bytes grow. */
err_t object_crops_save(const object_crops_t *crops, const int64_t *n, void **bytes, int64_t *n_bytes);
/* Reads them from the end, and reduces *n_bytes to the source's part. ERR_DATA: the lengths do not match. */
err_t object_crops_restore(const char *bytes, int64_t *n_bytes, object_crops_t *crops, int64_t *n);
/* ERR_DATA: an object refers to an image that the source does not have. */
err_t object_crops_check(const source_t *source, const object_crops_t *crops, const int64_t *n);

/* The object's box in the image as shown, extended by TRANSFORM_MARGIN on each side and clipped to the image.
 */
image_rect_t object_crops_region(const annotation_t *object, const image_info_t *info);

#endif
