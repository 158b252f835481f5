/* SPDX-License-Identifier: MIT */
/* The result of an evaluation for people and for scripts. Not collective. */
#ifndef TRAIN_EVALUATE_EVALUATION_SHOW_H
#define TRAIN_EVALUATE_EVALUATION_SHOW_H

#include "train/evaluate/evaluate.h"

typedef struct evaluation_about {
    const char *checkpoint;
    bool averaged; /* the weights are the checkpoint's moving average */
    dtype_t compute;
    const dataset_t *dataset;
    split_t split;
    const char *why_data;  /* "what it was trained on" */
    const char *data_xxh3; /* of the data that it was trained with */
} evaluation_about_t;

/* To the log, accuracy and loss to four digits. */
void evaluation_print(const evaluation_about_t *about, const evaluation_t *eval);

/* One JSON object, all digits; its fields are in results/README.md. The file appears whole or not at all.
 * ERR_SYSTEM naming the path. */
err_t evaluation_write_json(const evaluation_about_t *about, const evaluation_t *eval, const char *path);

#endif
