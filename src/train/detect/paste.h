/* SPDX-License-Identifier: MIT */
/* The mask of a detection in its image: torchvision's paste_masks_in_image (models/detection/roi_heads.py),
 * straight to RLE. Not collective. */
#ifndef TRAIN_DETECT_PASTE_H
#define TRAIN_DETECT_PASTE_H

#include "compute/boxes/box.h"
#include "compute/models/rcnn.h"
#include "data/annotation/rle.h"
#include "data/transform/map.h"

enum { PASTE_SIDE = RCNN_MASK_SIDE, PASTE_PADDED = PASTE_SIDE + 2 };

/* Working memory; starts zeroed. */
typedef struct paste {
    uint32_t *swaps;
    float mask[PASTE_PADDED][PASTE_PADDED];
} paste_t;
void paste_free(paste_t *paste);

/* A box in pixels of the resized image, in pixels of the image: torchvision's resize_boxes. */
box_t paste_box(box_t box, map_size_t scaled, map_size_t image);

/* The probabilities, with a border of one cell of 0, are interpolated over the box, which is extended by that
 * cell and rounded towards 0; the mask is where they exceed 0.5.
 *
 *   logits  of the detection's class: logits[stride · (28 y + x)]
 *   box     in pixels of the image */
err_t paste_mask(paste_t *paste, const float *logits, int64_t stride, box_t box, map_size_t image,
                 rle_t *out);

#endif
