/* SPDX-License-Identifier: MIT */
/* The samples of --task crops: one for each annotated object. Crowds and objects below TRANSFORM_MIN_AREA pixels
 * are left out. Not collective. */
#ifndef DATA_LOAD_OBJECT_CROPS_H
#define DATA_LOAD_OBJECT_CROPS_H

#include "data/image/image.h"
#include "data/source/source.h"

typedef struct object_crop {
    int32_t image, annotation; /* of the source's split; of the image */
} object_crop_t;

/* All zero: empty. End it with object_crops_free. */
typedef struct object_crops {
    object_crop_t *of[SPLIT_COUNT];
} object_crops_t;

/* Reads every annotation of the source; n: [SPLIT_COUNT], how many objects each split has. */
err_t object_crops_find(const source_t *source, object_crops_t *crops, int64_t *n);
void object_crops_free(object_crops_t *crops);

/* As bytes after those of the source, for ranks that do not open it: *bytes grows, *n_bytes too. */
err_t object_crops_save(const object_crops_t *crops, const int64_t *n, void **bytes, int64_t *n_bytes);
/* The same off the end: *n_bytes is the source's part then. ERR_DATA where the lengths contradict each other. */
err_t object_crops_restore(const char *bytes, int64_t *n_bytes, object_crops_t *crops, int64_t *n);
/* ERR_DATA where an object is in no image of the source. */
err_t object_crops_check(const source_t *source, const object_crops_t *crops, const int64_t *n);

/* The object's box in the upright image, TRANSFORM_MARGIN wider on each side, inside the image. */
image_rect_t object_crops_region(const annotation_t *object, const image_info_t *info);

#endif
