/* SPDX-License-Identifier: MIT */
/* The outcome of a detector's evaluation: scores, files of results, the picture. Rank 0; not collective. */
#ifndef TRAIN_INFERENCE_SHOW_DETECTOR_H
#define TRAIN_INFERENCE_SHOW_DETECTOR_H

#include "data/source/source.h"
#include "train/detect/gather.h"
#include "train/inference/detector_setup.h"

typedef struct show_detector {
    const evaluate_detector_options_t *options;
    const trained_model_t *model;
    const source_t *source;
    const truths_t *truths;
    const class_map_t *map;
    const canvases_t *canvases;
    gather_t *gather;
    bool masks;
} show_detector_t;

/* Logs weights, model, data and canvases, before anything is detected. */
void show_detector_header(const show_detector_t *show);

/* Scores what was gathered, logs the numbers and writes what the options ask for. */
err_t show_detector(const show_detector_t *show);

#endif
