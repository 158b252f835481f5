/* SPDX-License-Identifier: MIT */
/* From the network's outputs to objects in an image, as torchvision (models/detection/rpn.py, roi_heads.py): regions
 * that may hold objects, the objects in them, their masks. `aligned`: as TensorPack and Detectron2 (compute/models/rcnn.h
 * has the differences). On the host. Not collective. */
#ifndef TRAIN_DETECT_POSTPROCESS_H
#define TRAIN_DETECT_POSTPROCESS_H

#include <stddef.h>

#include "base/err.h"
#include "compute/boxes/boxes.h"
#include "compute/models/rcnn.h"
#include "data/annotation/mask.h"
#include "data/image/image.h"
#include "data/transform/map.h"
#include "text/opt.h"

enum { PROPOSALS_LEVELS = 5, PROPOSALS_PER_CELL = 3 };

/* The anchors of a level: sizes 32 to 512, height / width 0.5, 1 and 2.
 *
 *   height, width  cells */
anchor_grid_t proposals_grid(int level, map_size_t canvas, int64_t height, int64_t width, bool aligned);

/* The outputs on one level. */
typedef struct proposals_level {
    int64_t height, width;        /* cells */
    const float *logits, *deltas; /* [height, width, 3], [height, width, 3, 4] */
} proposals_level_t;

typedef struct proposals_options {
    int64_t before, after; /* most regions of each level before suppression, and of all levels after it */
    double nms;            /* IoU of suppression, within a level */
    bool aligned;
} proposals_options_t;

/* torchvision's: 1000, 1000, 0.7; 2000, 2000, 0.7. */
extern const proposals_options_t proposals_evaluation, proposals_training;

/* Working memory, allocated once. */
typedef struct proposals {
    proposals_options_t options;
    uint64_t *keys;
    int64_t *top, *taken;
    box_t *boxes, *sorted;
    float *scores;
    int32_t *levels, *sorted_levels;
} proposals_t;

/* n_cells: of the largest level. Free with proposals_free, also after an error. */
err_t proposals_new(const proposals_options_t *options, int64_t n_cells, proposals_t *out);
void proposals_free(proposals_t *proposals);

/* filter_proposals: per level the `before` best by logit; decoded, clipped to the image, less than 1e-3 pixels wide or
 * high (aligned: empty ones) left out; suppressed within their level; of all levels the `after` best by probability, of
 * equal ones the one of the lower level, then of the larger logit.
 *
 *   levels  [PROPOSALS_LEVELS], the finest first
 *   canvas  of the network's input; image: the part of it that the image fills
 *   out     [after] best first
 *
 * Returns how many. */
int64_t proposals_find(proposals_t *proposals, const proposals_level_t *levels, map_size_t canvas,
                       map_size_t image, box_t *out);

enum { DETECTIONS_MOST = 1000 };

typedef struct detections_options {
    double score_threshold, nms;
    int64_t detections;
    const char *resize; /* "torchvision": canvas_interpolate; otherwise canvas_fill */
    bool aligned;
} detections_options_t;
extern const opt_t detections_option_table[];
extern const int n_detections_options;
/* Whether images are resized by canvas_interpolate. */
bool detections_interpolate(const detections_options_t *options);

typedef struct found {
    box_t box; /* in pixels of the canvas */
    float score;
    int32_t class; /* > 0; 0 is the background */
} found_t;

/* The box head's outputs. */
typedef struct detections_input {
    int64_t n;                    /* regions */
    const box_t *regions;         /* [n] */
    const float *logits, *deltas; /* [n, classes], [n, classes, 4] */
    map_size_t image;             /* the part of the canvas that the image fills */
} detections_input_t;

/* Working memory, allocated once. */
typedef struct detections {
    detections_options_t options;
    int n_classes;
    float *probabilities, *scores;
    found_t *candidates;
    uint64_t *keys;
    int64_t *order, *taken;
    box_t *boxes;
    int32_t *classes;
} detections_t;

/* n_classes: the outputs, with the background. Free with detections_free, also after an error. */
err_t detections_new(const detections_options_t *options, int n_classes, int64_t most_regions,
                     detections_t *out);
void detections_free(detections_t *detections);

/* postprocess_detections: for every class but the background: regions with a probability above score_threshold, moved
 * by the class's deltas (weights 10, 10, 5, 5) and clipped to the image; less than 1e-2 pixels wide or high (aligned:
 * empty ones) left out; suppressed within their class. The best of all, by probability, then by region and class.
 *
 *   out  [options.detections]
 *
 * Returns how many. */
int64_t detections_find(detections_t *detections, const detections_input_t *input, found_t *out);

enum { PASTE_SIDE = RCNN_MASK_SIDE, PASTE_PADDED = PASTE_SIDE + 2 };

/* Working memory; starts zeroed. */
typedef struct paste {
    bool aligned; /* set by the caller */
    uint32_t *swaps;
    float mask[PASTE_PADDED][PASTE_PADDED];
} paste_t;
void paste_free(paste_t *paste);

/* A box in pixels of the resized image, in pixels of the image: torchvision's resize_boxes. */
box_t paste_box(box_t box, map_size_t scaled, map_size_t image);

/* paste_masks_in_image, straight to RLE: the probabilities, with a border of one cell of 0, are interpolated over the
 * box, which is extended by that cell and rounded towards 0; the mask is where they exceed 0.5. Aligned: Detectron2's
 * paste_masks_in_image, TensorPack's accurate _paste_mask: the box is not rounded, values are those at the centres of
 * pixels, and 0.5 is enough.
 *
 *   logits  of the detection's class: logits[stride · (28 y + x)]
 *   box     in pixels of the image */
err_t paste_mask(paste_t *paste, const float *logits, int64_t stride, box_t box, map_size_t image,
                 rle_t *out);

/* An object that a detector found. */
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
