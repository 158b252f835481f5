/* SPDX-License-Identifier: MIT */
/* The part of an object's mask in a region, as target of the mask head: torchvision's project_masks_on_boxes
 * (models/detection/roi_heads.py) of masks that transform.py resizes with the image. On the host. Not collective. */
#ifndef TRAIN_DETECT_MASK_TARGET_H
#define TRAIN_DETECT_MASK_TARGET_H

#include "base/err.h"
#include "compute/boxes/box.h"
#include "compute/models/rcnn.h"
#include "data/transform/map.h"

enum { MASK_TARGET_SIDE = RCNN_MASK_SIDE };

/* An object's mask in pixels of the image, cut to a rectangle; outside it the mask is 0. */
typedef struct mask_cut {
    int64_t x, y, width, height;
    const uint8_t *inside; /* [height, width] 1 or 0 */
} mask_cut_t;

/* Working memory; starts zeroed. */
typedef struct mask_target {
    float *weights; /* [MASK_TARGET_SIDE, width], then of the height */
    float *rows;    /* [MASK_TARGET_SIDE, width] */
} mask_target_t;
void mask_target_free(mask_target_t *target);

/* RoIAlign (not aligned, as many samples as the bin has pixels, rounded up) of the mask, which is resized to
 * `scaled` by the nearest pixel. It is separable: two small products of interpolation weights with the mask.
 *
 *   image   the size of the image that the mask belongs to
 *   scaled  its size on the canvas
 *   region  in pixels of the canvas
 *   out     [MASK_TARGET_SIDE, MASK_TARGET_SIDE] in 0 … 1 */
err_t mask_target_make(mask_target_t *target, const mask_cut_t *mask, map_size_t image, map_size_t scaled,
                       box_t region, float *out);

#endif
