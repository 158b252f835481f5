/* SPDX-License-Identifier: MIT */
/* Detectors in `dptrain eval` and `dptrain predict`: options, weights and algorithms. */
#ifndef TRAIN_INFERENCE_DETECTOR_SETUP_H
#define TRAIN_INFERENCE_DETECTOR_SETUP_H

#include "data/annotation/sample.h"
#include "train/detect/detector.h"
#include "train/inference/trained_model.h"

typedef struct detector_settings {
    canvas_options_t canvas;
    uint64_t canvas_given; /* opt_group_t.given of canvas_option_table */
    detections_options_t detections;
} detector_settings_t;

/* ERR_USAGE: an option was given that classifiers have and detectors do not, or, unless the model is a detector, the
 * other way round.
 *
 *   model   its name; NULL: unknown, no detector
 *   own     groups of options of detectors
 *   others  keys of options of classifiers, NULL-terminated; all among `groups` */
err_t detector_check_options(const char *model, const opt_group_t *own, int n_own, opt_group_t *groups,
                             int n_groups, const char *const *others);

/* Rank 0. The canvases that the options ask for; what they leave open is as in the run of a checkpoint. */
err_t detector_canvases(const trained_model_t *model, const detector_settings_t *settings, canvases_t *out);

/* Rank 0. Compares the classes of a checkpoint with those of data: ERR_DATA if other categories have the outputs. Warns
 * of other names.
 *
 *   data  for messages */
err_t detector_check_categories(const trained_model_t *model, const category_t *categories,
                                int32_t n_categories, const char *data);

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

/* What runs a trained detector; starts zeroed. */
typedef struct detector_plan {
    algorithms_t algorithms;
    exec_t *exec; /* detector_options_t's; NULL: weights' */
} detector_plan_t;

/* Collective. Pushes the weights to the device. A checkpoint gets an executor with its own algorithms, for the bits of
 * its run's evaluation; rcnn_algorithms decides on canvases that the run did not have. After detectors are opened,
 * call exec_ready. */
err_t detector_plan_make(const runtime_t *runtime, const trained_model_t *model, const canvases_t *canvases,
                         detector_plan_t *out);
void detector_plan_free(detector_plan_t *plan);

#endif
