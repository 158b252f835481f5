/* SPDX-License-Identifier: MIT */
/* Objects in an image, from the box head's outputs for its regions: torchvision's
 * RoIHeads.postprocess_detections (models/detection/roi_heads.py). On the host. Not collective. */
#ifndef TRAIN_DETECT_DETECTIONS_H
#define TRAIN_DETECT_DETECTIONS_H

#include "base/opt.h"
#include "compute/boxes/box.h"
#include "data/transform/map.h"

enum { DETECTIONS_MOST = 1000 };

typedef struct detections_options {
    double score_threshold, nms;
    int64_t detections;
} detections_options_t;
extern const opt_t detections_option_table[];
extern const int n_detections_options;

typedef struct found {
    box_t box; /* in pixels of the canvas */
    float score;
    int32_t class; /* > 0; 0 is the background */
} found_t;

/* The box head's outputs. */
typedef struct detections_input {
    int64_t n;                    /* regions */
    const box_t *regions;         /* [n] */
    const float *logits, *deltas; /* [n, classes], [n, classes, 4] */
    map_size_t image;             /* the part of the canvas that the image fills */
} detections_input_t;

/* Working memory, allocated once. */
typedef struct detections {
    detections_options_t options;
    int n_classes;
    float *probabilities, *scores;
    found_t *candidates;
    uint64_t *keys;
    int64_t *order, *taken;
    box_t *boxes;
    int32_t *classes;
} detections_t;

/* n_classes: the outputs, with the background. Free with detections_free, also after an error. */
err_t detections_new(const detections_options_t *options, int n_classes, int64_t most_regions,
                     detections_t *out);
void detections_free(detections_t *detections);

/* For every class but the background: regions with a probability above score_threshold, moved by the class's
 * deltas (weights 10, 10, 5, 5) and clipped to the image; less than 1e-2 pixels wide or high left out;
 * suppressed within their class. The best of all, by probability, then by region and class.
 *
 *   out  [options.detections]
 *
 * Returns how many. */
int64_t detections_find(detections_t *detections, const detections_input_t *input, found_t *out);

#endif
