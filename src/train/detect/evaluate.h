/* SPDX-License-Identifier: MIT */
/* Evaluates a detector on annotated images, on all ranks: COCO's average precision and recall of boxes and masks.
 * Images are dealt to the ranks by the area of their canvases. Results do not depend on the number of ranks, as long
 * as each has as many threads. */
#ifndef TRAIN_DETECT_EVALUATE_H
#define TRAIN_DETECT_EVALUATE_H

#include <stdint.h>

#include "base/err.h"
#include "cluster/comm/comm.h"
#include "data/annotation/sample.h"
#include "data/load/loader.h"
#include "data/score/results.h"
#include "data/score/score.h"
#include "data/source/source.h"
#include "train/detect/detector.h"

typedef struct detection_evaluator detection_evaluator_t;

/* All pointers are borrowed. */
typedef struct detection_evaluator_options {
    comm_t *comm;
    const graph_t *graph; /* compute/models/rcnn.h */
    const backend_t *backend;
    float *params, *states; /* of the backend; may change between runs */
    exec_t *exec;           /* as in detector_options_t */
    pixel_norm_t norm;
    const source_t *source; /* with annotations */
    split_t split;
    int64_t limit;              /* evaluate this many images of the split, evenly spaced; 0: all */
    const canvases_t *canvases; /* one holds each image */
    const class_map_t *map;     /* of the source's categories */
    detections_options_t detections;
    bool masks;         /* score masks too; only of a model with masks */
    bool skip_unmasked; /* transform_settings_t's */
    /* These complete messages about the ground truth; or NULL. */
    const char *advice;      /* annotations without masks: "; use --score bbox" */
    const char *list_advice; /* annotations without ids of their own: "; or add --no-eval" */
    /* Receives images that cannot be read; nothing is detected in them. NULL: they are errors. */
    corrupt_samples_t *bad;
} detection_evaluator_options_t;

/* Plans the canvases that the images need; rank 0 also collects the ground truth. Not collective: ranks agree on the
 * result. ERR_DATA: no images, annotations or (with masks) segmentations; two annotations with one id; an image whose
 * shape detectors do not take (canvas_place). ERR_USAGE: no canvas holds an image, which is named. */
err_t detection_evaluator_open(const detection_evaluator_options_t *options, detection_evaluator_t **out);
void detection_evaluator_close(detection_evaluator_t **evaluator);

/* The same on all ranks. */
typedef struct detection_numbers {
    int64_t n_images, n_detections;
    bool has[SCORE_TYPE_COUNT];
    double numbers[SCORE_TYPE_COUNT][SCORE_NUMBERS]; /* as in score_t; unless `has`: NaN */
} detection_numbers_t;

/* Collective. Detects and scores; keeps nothing. */
err_t detection_evaluator_run(detection_evaluator_t *evaluator, detection_numbers_t *out);

/* Collective. Its two parts, for those who want what was found; it is kept until the next call. */
err_t detection_evaluator_detect(detection_evaluator_t *evaluator);
err_t detection_evaluator_score(detection_evaluator_t *evaluator, detection_numbers_t *out);

/* An image with its detections. */
typedef struct gather_image {
    int64_t index, id; /* in the split; the source's */
    int64_t first, n;  /* detections */
} gather_image_t;

/* On rank 0; on others all is NULL. */
typedef struct detection_outcome {
    const truths_t *truths;       /* once opened */
    const results_t *results;     /* once detected */
    const gather_image_t *images; /* in the order of the truths' */
    const score_t *scores[SCORE_TYPE_COUNT];
    int n_scores; /* once scored */
} detection_outcome_t;
detection_outcome_t detection_evaluator_outcome(const detection_evaluator_t *evaluator);

#endif
