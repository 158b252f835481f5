/* SPDX-License-Identifier: MIT */
/* A contact sheet of a model's worst mistakes: each image enlarged, with its label, the prediction, its
 * probability, and the sample's index. Not collective. */
#ifndef TRAIN_TASK_MISTAKES_H
#define TRAIN_TASK_MISTAKES_H

#include "data/dataset/dataset.h"
#include "data/show/page.h"
#include "train/task/worst.h"

typedef struct mistakes {
    const char *checkpoint; /* path, for the heading */
    const dataset_t *dataset;
    split_t split;
    int64_t n, n_wrong;       /* samples of the evaluation, and mistakes among them */
    const worst_t *worst;     /* drawn in this order; may be empty */
    const char *const *names; /* [n_classes]; NULL: classes are numbers */
} mistakes_t;

/* Draws the sheet; the same input yields the same pixels. Free the page with page_free. */
err_t mistakes_draw(const mistakes_t *mistakes, page_t **out);

#endif
