/* SPDX-License-Identifier: MIT */
/* The images of a split on which a detector is worst. Not collective. */
#ifndef TRAIN_DETECT_WORST_IMAGES_H
#define TRAIN_DETECT_WORST_IMAGES_H

#include "data/score/results.h"

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
