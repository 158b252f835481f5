/* SPDX-License-Identifier: MIT */
/* Detectors in `dptrain eval` and `dptrain predict`: options and weights. */
#ifndef TRAIN_INFERENCE_DETECTOR_SETUP_H
#define TRAIN_INFERENCE_DETECTOR_SETUP_H

#include "data/annotation/split.h"
#include "train/detect/detector.h"
#include "train/inference/trained_model.h"

typedef struct detector_settings {
    canvas_options_t canvas;
    detections_options_t detections;
} detector_settings_t;

/* Of an evaluation (evaluate_detector.h). */
typedef struct evaluate_detector_options {
    const char *data; /* COCO's folder, or shards */
    split_t split;
    const char *score;   /* "auto", "bbox" or "segm" */
    const char *json;    /* output: the numbers; or NULL */
    const char *results; /* output: folder of bbox.json and segm.json; or NULL */
    const char *png;     /* output: truth beside detections; or NULL */
    int64_t n_worst;     /* images in png */
    bool per_category;
    weights_options_t weights;
    detector_settings_t detector;
} evaluate_detector_options_t;

/* Whether the options name a detector. */
bool detector_wanted(const weights_options_t *options);

/* ERR_USAGE: an option was given that classifiers have and detectors do not, or, unless a detector is wanted, the
 * other way round.
 *
 *   own     groups of options of detectors
 *   others  keys of options of classifiers, NULL-terminated; all among `groups` */
err_t detector_check_options(const weights_options_t *options, const opt_group_t *own, int n_own,
                             opt_group_t *groups, int n_groups, const char *const *others);

/* Rank 0. Imports weights.
 *
 *   source  that has the classes, for messages; NULL: they are counted in the file, n_classes does not matter
 *
 * ERR_DATA: weights of another number of classes; others as trained_import. */
err_t detector_import(const char *path, const weights_options_t *options, const char *source, int n_classes,
                      const backend_t *backend, trained_model_t *out);

/* ERR_USAGE: `score` asks for masks that the model lacks.
 *
 *   masks  with "auto", whether there are masks */
err_t detector_choose_masks(const graph_t *graph, const char *score, bool *masks);

/* Pushes the weights to the device and plans the detector. The caller has set options->canvases, detections, masks
 * and tick. */
err_t detector_start(const backend_t *backend, const trained_model_t *model, detector_options_t *options,
                     detector_t **out);

#endif
