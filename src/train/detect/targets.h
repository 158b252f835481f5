/* SPDX-License-Identifier: MIT */
/* Training targets of one image, inputs of the model's losses (compute/models/rcnn.h): torchvision's
 * RegionProposalNetwork.assign_targets_to_anchors, RoIHeads.select_training_samples and project_masks_on_boxes
 * (models/detection/rpn.py, roi_heads.py). On the host. Not collective.
 *
 * Samples are drawn by (seed, epoch, image, candidate) alone: they are the same on any number of ranks. */
#ifndef TRAIN_DETECT_TARGETS_H
#define TRAIN_DETECT_TARGETS_H

#include "base/err.h"
#include "compute/boxes/boxes.h"
#include "compute/models/rcnn.h"
#include "data/annotation/mask.h"
#include "data/transform/map.h"
#include "train/detect/postprocess.h"

typedef struct targets_options {
    int64_t anchors, regions;                   /* sampled per image, at most */
    double object_anchors, object_regions;      /* of these, the largest share that are objects */
    double anchor_high, anchor_low, region_iou; /* of matching, as match_rule_t has them */
    bool aligned;                               /* proposals_options_t's */
} targets_options_t;

/* torchvision's: 256 anchors and 512 regions, at most a half and a quarter of them objects; 0.7, 0.3, 0.5. */
extern const targets_options_t targets_training;

/* An image's objects. */
typedef struct targets_objects {
    int64_t n;
    const box_t *boxes;     /* [n] in pixels of the canvas */
    const int32_t *classes; /* [n] > 0 */
    int64_t n_ignored;      /* boxes that follow the objects': what lies in them is not background */
} targets_objects_t;

/* What a draw depends on beside its candidates. */
typedef struct targets_draw {
    uint64_t seed;
    uint32_t epoch, image;
} targets_draw_t;

/* The inputs "rpn.L.label", "rpn.L.target" and "rpn.L.weight": those of level L begin at anchor first[L]. */
typedef struct anchor_targets {
    int64_t first[PROPOSALS_LEVELS + 1];
    int32_t *labels; /* 1: an object, 0: background, -1: not sampled */
    float *targets,
        *weights; /* four an anchor, 0 unless it is an object; 1 / sampled anchors, 0 if not sampled */
    int64_t n_objects, n_background;
} anchor_targets_t;

/* The inputs "box.regions", "box.label", "box.target" and "box.weight"; after the n regions, rows that count for
 * nothing up to a whole block. Objects come first. */
typedef struct region_targets {
    int64_t n, n_objects;
    float *regions;           /* ROI_ALIGN_VALUES a row; the image's index is 0 */
    int32_t *labels;          /* 0: background; -1 after n */
    float *targets, *weights; /* four a row, 0 unless it is an object; 1 / n */
    int32_t *objects;         /* [n_objects] the object of each region */
} region_targets_t;

/* Working memory, allocated once. */
typedef struct targets {
    targets_options_t options;
    int64_t max_objects, max_regions, n_rows;
    anchor_targets_t anchors;
    region_targets_t regions;
    int32_t *found, *labels;
    uint64_t *keys;
    match_memory_t match;
    box_t *boxes;
} targets_t;

/* Free with targets_free, also after an error.
 *
 *   n_anchors    of the largest canvas, all levels
 *   max_regions  that targets_find_regions is given
 *   n_rows       of region_targets_t: options->regions, in whole blocks */
err_t targets_new(const targets_options_t *options, int64_t n_anchors, int64_t max_objects,
                  int64_t max_regions, int64_t n_rows, targets_t *out);
void targets_free(targets_t *targets);

/* Labels and samples the anchors of a canvas. Background of which half lies in an ignored box is not sampled, unless
 * there is nothing else. Fills in `anchors`.
 *
 *   cells  [PROPOSALS_LEVELS] rows and columns of the levels */
void targets_find_anchors(targets_t *targets, const targets_objects_t *objects, map_size_t canvas,
                          const map_size_t *cells, const targets_draw_t *draw);

/* The same for regions, to which the objects' own boxes are added; fills in `regions`. */
void targets_find_regions(targets_t *targets, const targets_objects_t *objects, const box_t *regions,
                          int64_t n, const targets_draw_t *draw);

enum { MASK_TARGET_SIDE = RCNN_MASK_SIDE };

/* An object's mask in pixels of the image, cut to a rectangle; outside it the mask is 0. */
typedef struct mask_cut {
    int64_t x, y, width, height;
    const uint8_t *inside; /* [height, width] 1 or 0 */
} mask_cut_t;

/* Working memory; starts zeroed. */
typedef struct mask_target {
    bool aligned;   /* RoIAlign is; set by the caller */
    float *weights; /* [MASK_TARGET_SIDE, width], then of the height */
    float *rows;    /* [MASK_TARGET_SIDE, width] */
} mask_target_t;
void mask_target_free(mask_target_t *target);

/* The part of an object's mask in a region, as target of the mask head: project_masks_on_boxes of masks that
 * transform.py resizes with the image. RoIAlign (as many samples as the bin has pixels, rounded up) of the mask, which
 * is resized to `scaled` by the nearest pixel. It is separable: two small products of interpolation weights with the
 * mask.
 *
 *   image   the size of the image that the mask belongs to
 *   scaled  its size on the canvas
 *   region  in pixels of the canvas
 *   out     [MASK_TARGET_SIDE, MASK_TARGET_SIDE] in 0 … 1 */
err_t mask_target_make(mask_target_t *target, const mask_cut_t *mask, map_size_t image, map_size_t scaled,
                       box_t region, float *out);

/* How the image of a mask is shown: turned by its EXIF orientation, then flipped left to right. */
typedef struct mask_view {
    map_size_t stored; /* size of the image as stored */
    int orientation;   /* 1 to 8 */
    bool flipped;
} mask_view_t;

/* An object's mask as its image is shown. Draws the runs, which belong to the image as stored, into a bitmap of their
 * bounding box.
 *
 *   bitmap  working memory, which grows to the largest mask; starts NULL; mem_free it
 *   out     its pixels are in *bitmap until the next call; an empty mask is one pixel of 0
 *
 * ERR_DATA: the runs do not add up to the image. */
err_t mask_cut_make(const rle_t *mask, const mask_view_t *view, uint8_t **bitmap, mask_cut_t *out);

#endif
