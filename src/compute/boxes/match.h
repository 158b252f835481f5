/* SPDX-License-Identifier: MIT */
/* Assigns objects to candidate boxes (anchors, proposals) for training: torchvision's Matcher. Not collective. */
#ifndef COMPUTE_BOXES_MATCH_H
#define COMPUTE_BOXES_MATCH_H

#include "compute/boxes/box.h"

/* Results other than the index of an object. */
enum { MATCH_BACKGROUND = -1, MATCH_IGNORED = -2 };

typedef struct match_rule {
    float high, low; /* IoU: from `high` on an object, below `low` background, between them ignored */
    /* Each object's best candidates, all of those with the same IoU, have an object even below `high`: their own
     * best one. */
    bool best_of_each;
} match_rule_t;

/* Working memory. */
typedef struct match_memory {
    float *best; /* [n_objects] */
    float *iou;  /* [n] */
} match_memory_t;

/* Equal IoUs: the earlier object.
 *
 *   objects     [n_objects]; none: all candidates are background
 *   candidates  [n]
 *   found       [n] receives the index of an object, MATCH_BACKGROUND or MATCH_IGNORED */
void match_boxes(const match_rule_t *rule, const box_t *objects, int64_t n_objects, const box_t *candidates,
                 int64_t n, const match_memory_t *memory, int32_t *found);

#endif
