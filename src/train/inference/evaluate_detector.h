/* SPDX-License-Identifier: MIT */
/* Evaluates a detector on a split of annotated images: COCO's average precision of boxes and masks. */
#ifndef TRAIN_INFERENCE_EVALUATE_DETECTOR_H
#define TRAIN_INFERENCE_EVALUATE_DETECTOR_H

#include "cluster/session/runtime.h"
#include "train/inference/detector_setup.h"

extern const char *const evaluate_detector_scores[];

/* Collective. Deals the images to the ranks by the area of their canvases, and logs the numbers. Results do not
 * depend on the number of ranks, as long as each has as many threads.
 *
 *   where, model  as in evaluate_checkpoint
 *
 * ERR_DATA: no annotations, weights or classes that do not fit, an image that cannot be read or placed (canvas_place). */
err_t evaluate_detector(runtime_t *runtime, const char *where, trained_model_t *model,
                        const evaluate_detector_options_t *options);

#endif
