/* SPDX-License-Identifier: MIT */
/* The outcome of a detector's evaluation: scores, files of results, the picture. Rank 0; not collective. */
#ifndef TRAIN_INFERENCE_SHOW_DETECTOR_H
#define TRAIN_INFERENCE_SHOW_DETECTOR_H

#include "data/source/source.h"
#include "train/evaluate/detection_evaluator.h"
#include "train/inference/detector_setup.h"

typedef struct show_detector {
    const evaluate_detector_options_t *options;
    const trained_model_t *model;
    const source_t *source;
    const class_map_t *map;
    const canvases_t *canvases;
    const detection_evaluator_t *evaluator;
} show_detector_t;

/* Logs weights, model, data and canvases, before anything is detected. */
void show_detector_header(const show_detector_t *show);

/* Logs how much was detected, and writes files of results. */
err_t show_detector_results(const show_detector_t *show);

/* Logs the numbers, and writes and draws what the options ask for. */
err_t show_detector_scores(const show_detector_t *show);

#endif
