/* SPDX-License-Identifier: MIT */
/* Evaluates a detector on a split of annotated images: COCO's average precision of boxes and masks. */
#ifndef TRAIN_INFERENCE_EVALUATE_DETECTOR_H
#define TRAIN_INFERENCE_EVALUATE_DETECTOR_H

#include "cluster/session/runtime.h"
#include "data/score/results.h"
#include "data/source/source.h"
#include "train/inference/trained_model.h"

extern const char *const evaluate_detector_scores[];

typedef struct evaluate_detector_options {
    const char *data; /* COCO's folder, or shards; NULL: the checkpoint's */
    split_t split;
    const char *score;   /* "auto", "bbox" or "segm" */
    const char *json;    /* output: the numbers; or NULL */
    const char *results; /* output: folder of bbox.json and segm.json; or NULL */
    const char *png;     /* output: truth beside detections; or NULL */
    int64_t n_worst;     /* images in png */
    int64_t max_bad;     /* images that cannot be read; more are an error */
    list_rules_t list;   /* of the data; what is at its default is the checkpoint's */
    bool per_category;
    bool threads_given; /* as in evaluate_options_t */
    weights_options_t weights;
    detector_settings_t detector;
} evaluate_detector_options_t;

/* Collective. Deals the images to the ranks by the area of their canvases, and logs the numbers. Results do not depend
 * on the number of ranks, as long as each has as many threads.
 *
 *   where, model  as in evaluate_checkpoint
 *
 * ERR_DATA: no annotations, weights or classes that do not fit, an image that cannot be read or placed (canvas_place). */
err_t evaluate_detector(runtime_t *runtime, const char *where, trained_model_t *model,
                        const evaluate_detector_options_t *options);

/* An object is found if a detection of its category with the threshold's score has an IoU of 0.5 with it and
 * finds no other. Crowds are no objects; a detection of which at least half lies in one is neither right nor wrong. */
typedef struct worst_image {
    int32_t image;    /* row of the truths */
    int64_t first, n; /* its detections among the results, which are sorted by image */
    int32_t found, missed, wrong;
} worst_image_t;

/* The worst first: by the share of right among all, 2 · found / (2 · found + missed + wrong), ascending, then by
 * the number of mistakes, then by the image's id.
 *
 *   results  sorted by image, in each by score
 *   out      [truths->n_images] receives all images */
err_t worst_images(const truths_t *truths, const results_t *results, double threshold, worst_image_t *out);

#endif
