/* SPDX-License-Identifier: MIT */
/* Training targets of one image, inputs of the model's losses (compute/models/rcnn.h): torchvision's
 * RegionProposalNetwork.assign_targets_to_anchors and RoIHeads.select_training_samples (models/detection/rpn.py,
 * roi_heads.py). On the host. Not collective.
 *
 * Samples are drawn by (seed, epoch, image, candidate) alone: they are the same on any number of ranks. */
#ifndef TRAIN_DETECT_TARGETS_H
#define TRAIN_DETECT_TARGETS_H

#include "compute/boxes/match.h"
#include "train/detect/proposals.h"

typedef struct targets_options {
    int64_t anchors, regions;                   /* sampled per image, at most */
    double object_anchors, object_regions;      /* of these, the largest share that are objects */
    double anchor_high, anchor_low, region_iou; /* of matching, as match_rule_t has them */
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

#endif
