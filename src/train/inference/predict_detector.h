/* SPDX-License-Identifier: MIT */
/* Finds the objects in image files with a detector. */
#ifndef TRAIN_INFERENCE_PREDICT_DETECTOR_H
#define TRAIN_INFERENCE_PREDICT_DETECTOR_H

#include "cluster/session/runtime.h"
#include "data/load/image_files.h"
#include "train/inference/detector_setup.h"

typedef struct predict_detector_options {
    const char *
        data; /* names the classes: COCO's folder, shards, or a file of annotations; or NULL, as checkpoints do */
    const char *out;  /* output: folder of images with their objects; or NULL */
    const char *json; /* output: one object per line and image; NULL with `out`: predictions.json in it */
    double threshold; /* of the scores of objects that are drawn and printed */
    weights_options_t weights;
    detector_settings_t detector;
} predict_detector_options_t;

/* Logs, writes and draws the objects of every image. On one rank; ERR_USAGE otherwise.
 *
 *   where, model  as in evaluate_checkpoint
 *   list          at least one image
 *
 * ERR_DATA after all others are done if images could not be read or have shapes that detectors do not take; each is
 * named in a warning. */
err_t predict_detector(runtime_t *runtime, const char *where, trained_model_t *model,
                       const image_list_t *list, const predict_detector_options_t *options);

#endif
