/* SPDX-License-Identifier: MIT */
/* Boxes in images, as torchvision's detection models treat them (torchvision/ops/boxes.py,
 * models/detection/_utils.py). Corners in pixels, not rounded: width is x2 - x1. Not collective; nothing here
 * allocates or depends on threads. */
#ifndef COMPUTE_BOXES_BOX_H
#define COMPUTE_BOXES_BOX_H

#include <stdbool.h>
#include <stdint.h>

typedef struct box {
    float x1, y1, x2, y2;
} box_t;

/* A box relative to another one: how far its centre has moved, in widths and heights, and the logarithms of the
 * ratios of its width and height; each times a weight. */
typedef struct box_delta {
    float dx, dy, dw, dh;
} box_delta_t;

typedef struct box_weights {
    float x, y, w, h;
} box_weights_t;

static inline float box_area(box_t b)
{
    return (b.x2 - b.x1) * (b.y2 - b.y1);
}

/* Intersection over union. Inline and without calls: a training step computes millions. */
static inline float box_iou(box_t a, box_t b)
{
    const float w = (a.x2 < b.x2 ? a.x2 : b.x2) - (a.x1 > b.x1 ? a.x1 : b.x1),
                h = (a.y2 < b.y2 ? a.y2 : b.y2) - (a.y1 > b.y1 ? a.y1 : b.y1);
    if (!(w > 0 && h > 0)) return 0;
    const float inter = w * h;
    return inter / (box_area(a) + box_area(b) - inter);
}

/* `box` relative to `from`, which must not be empty. */
box_delta_t box_encode(box_t box, box_t from, box_weights_t weights);

/* The inverse. dw and dh are limited to ln(1000 / 16), so that exp does not overflow. */
box_t box_decode(box_delta_t delta, box_t from, box_weights_t weights);

/* The part of a box that lies in an image. */
box_t box_clip(box_t box, float height, float width);

/* Whether width and height are at least `least`. */
static inline bool box_is_at_least(box_t b, float least)
{
    return b.x2 - b.x1 >= least && b.y2 - b.y1 >= least;
}

/* The level of a feature pyramid from which a region's features are taken: floor(4 + log2(sqrt(area) / 224)),
 * within [lowest, highest] (Lin et al., "Feature Pyramid Networks for Object Detection", 2017, equation 1). */
int box_level(box_t box, int lowest, int highest);

#endif
