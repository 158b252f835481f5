/* SPDX-License-Identifier: MIT */
/* A contact sheet of what a model got wrong, for people: the worst mistakes, enlarged, each with its label,
 * what the model said, the probability that it gave to that, and the sample's number. Not collective. */
#ifndef TRAIN_EVALUATE_MISTAKES_H
#define TRAIN_EVALUATE_MISTAKES_H

#include "data/dataset/dataset.h"
#include "data/show/page.h"
#include "train/evaluate/evaluate.h"
#include "train/evaluate/worst.h"

typedef struct mistakes {
    const char *checkpoint; /* path, for the heading */
    const dataset_t *dataset;
    split_t split;
    const evaluation_t *evaluation;
    const worst_t *worst; /* in the order in which they are drawn; may be empty */
} mistakes_t;

/* The same input gives the same pixels. Free the page with page_free. */
err_t mistakes_draw(const mistakes_t *mistakes, page_t **out);

#endif
