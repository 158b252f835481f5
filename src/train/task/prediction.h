/* SPDX-License-Identifier: MIT */
/* A model's answer for one image: its best classes, as text, JSON and a picture. Not collective. */
#ifndef TRAIN_TASK_PREDICTION_H
#define TRAIN_TASK_PREDICTION_H

#include "base/json.h"
#include "data/dataset/dataset.h"
#include "data/image/image.h"
#include "data/show/page.h"

typedef struct prediction_class {
    int class;
    double probability;
} prediction_class_t;

typedef struct prediction {
    const char *image; /* path */
    const dataset_info_t *info;
    int n; /* of best */
    prediction_class_t *best;
} prediction_t;

/* The n classes with the highest scores, best first; of equal scores the lower class comes first, as in
 * evaluation. probability: the task's.
 *
 *   out  [n], n ≤ n_classes */
void prediction_rank(const float *logits, int n_classes,
                     double (*probability)(const float *logits, int n_classes, int k), int n,
                     prediction_class_t *out);

/* Logs the image, and below it a line per class. */
void prediction_print(const prediction_t *prediction);

/* Writes one object; docs/records.md describes its fields.
 *
 *   error  why the image could not be read, instead of its classes; or NULL */
void prediction_json(const prediction_t *prediction, const char *error, json_t *j);

/* Draws the image, reduced or enlarged to a handy size, above its classes. Free the page with page_free. */
err_t prediction_draw(const prediction_t *prediction, const image_t *image, page_t **out);

#endif
