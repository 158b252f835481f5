/* SPDX-License-Identifier: MIT */
/* The result of an evaluation as text and as JSON. Not collective. */
#ifndef TRAIN_EVALUATE_EVALUATION_SHOW_H
#define TRAIN_EVALUATE_EVALUATION_SHOW_H

#include "train/evaluate/evaluate.h"

typedef struct evaluation_about {
    const char *checkpoint; /* or the file of the weights */
    bool weights;           /* they are of unknown origin: data_xxh3 is unknown */
    const char *input;      /* of weights: the images that they take; "": as the data has them */
    bool averaged;          /* the weights are the checkpoint's moving average */
    dtype_t compute;
    const evaluator_t *evaluator;
    const char *const *class_names; /* [n_classes]; NULL: classes are numbers */
    const char *why_data;           /* where the choice of data comes from: "from the checkpoint" */
    const char *data_xxh3;          /* of the training data */
} evaluation_about_t;

/* Logs the result, metrics to four digits. */
void evaluation_print(const evaluation_about_t *about, const evaluation_t *eval);

/* Writes one JSON object with all digits, atomically; docs/records.md describes its fields. ERR_SYSTEM naming
 * the path. */
err_t evaluation_write_json(const evaluation_about_t *about, const evaluation_t *eval, const char *path);

#endif
