/* SPDX-License-Identifier: MIT */
/* The samples of --task crops: one per annotated object, except crowds and objects of less than
 * TRANSFORM_MIN_AREA pixels. Not collective. */
#ifndef DATA_LOAD_OBJECT_CROPS_H
#define DATA_LOAD_OBJECT_CROPS_H

#include "data/image/image.h"
#include "data/load/sample_list.h"

/* samples_ops_t's `list`: the objects. Reads every annotation of the source. */
err_t object_crops_list(const source_t *source, const transform_settings_t *settings,
                        const open_watch_t *watch, sample_list_t *out);

/* The object's box in the image as shown, extended by TRANSFORM_MARGIN on each side and clipped to the image.
 */
image_rect_t object_crops_region(const annotation_t *object, const image_info_t *info);

#endif
