/* SPDX-License-Identifier: MIT */
/* Regions of an image that may hold objects, from the outputs of a region proposal network on the levels of a
 * feature pyramid: torchvision's RegionProposalNetwork.filter_proposals (models/detection/rpn.py), with its
 * anchors. On the host. Not collective. */
#ifndef TRAIN_DETECT_PROPOSALS_H
#define TRAIN_DETECT_PROPOSALS_H

#include <stddef.h>

#include "base/err.h"
#include "compute/boxes/anchors.h"
#include "data/transform/map.h"

enum { PROPOSALS_LEVELS = 5, PROPOSALS_PER_CELL = 3 };

/* The anchors of a level: sizes 32 to 512, height / width 0.5, 1 and 2.
 *
 *   height, width  cells */
anchor_grid_t proposals_grid(int level, map_size_t canvas, int64_t height, int64_t width);

/* The outputs on one level. */
typedef struct proposals_level {
    int64_t height, width;        /* cells */
    const float *logits, *deltas; /* [height, width, 3], [height, width, 3, 4] */
} proposals_level_t;

typedef struct proposals_options {
    int64_t before, after; /* most regions of each level before suppression, and of all levels after it */
    double nms;            /* IoU of suppression, within a level */
} proposals_options_t;

/* torchvision's for evaluation: 1000, 1000, 0.7. */
extern const proposals_options_t proposals_evaluation;

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

/* Per level the `before` best by logit; decoded, clipped to the image, less than 1e-3 pixels wide or high left
 * out; suppressed within their level; of all levels the `after` best by probability, of equal ones the one of
 * the lower level, then of the larger logit.
 *
 *   levels  [PROPOSALS_LEVELS], the finest first
 *   canvas  of the network's input; image: the part of it that the image fills
 *   out     [after] best first
 *
 * Returns how many. */
int64_t proposals_find(proposals_t *proposals, const proposals_level_t *levels, map_size_t canvas,
                       map_size_t image, box_t *out);

#endif
