/* SPDX-License-Identifier: MIT */
/* Matches the detections of one image and category with its truths. Private to data/score. */
#ifndef DATA_SCORE_MATCH_H
#define DATA_SCORE_MATCH_H

#include "data/annotation/mask.h"
#include "data/score/results.h"

enum { MATCH_THRESHOLDS = 10, MATCH_AREAS = 4, MATCH_MOST = 100 };

/* A detection's outcome, a bit per IoU threshold. Neither hit nor miss: it is ignored. */
typedef struct outcome {
    double score;
    int64_t order; /* among those of its category */
    int32_t rank;  /* by score, in its image and category */
    uint16_t hit[MATCH_AREAS], miss[MATCH_AREAS];
} outcome_t;

/* Scratch; starts zeroed; free with matcher_free. */
typedef struct matcher {
    const truth_image_t *image;
    score_type_t type;
    bool box_areas;
    const detection_t **detections; /* [n_detections] of this image and category; the caller fills these in */
    const annotation_t **truths;    /* [n_truths] */
    int64_t n_detections;
    int32_t n_truths;

    double *iou;                           /* [detections, truths] */
    rle_t *truth_masks, masks[MATCH_MOST]; /* SCORE_SEGM */
    int32_t n_truth_masks;                 /* allocated */
    mask_scratch_t scratch;
    int32_t *order;               /* of the truths: the ones that count first */
    uint16_t *taken;              /* [truths]: bits of thresholds */
    bool *ignored;                /* [truths] */
    double areas[MATCH_MOST];     /* of detections */
    int64_t n_found[MATCH_AREAS]; /* sum over calls: truths that count */
} matcher_t;

void matcher_free(matcher_t *matcher);

/* Writes the outcomes of the first 100 detections by score; returns their number in *n_out. */
err_t match(matcher_t *matcher, outcome_t out[MATCH_MOST], int32_t *n_out);

#endif
