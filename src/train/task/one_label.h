/* SPDX-License-Identifier: MIT */
/* Shared by the tasks whose samples have one class: metrics, loss, evaluation, picture (contracts: evaluate.h); the worst
 * mistakes. */
#ifndef TRAIN_TASK_ONE_LABEL_H
#define TRAIN_TASK_ONE_LABEL_H

#include "train/task/evaluate.h"

extern const task_metric_t one_label_metrics[];
extern const task_scoring_t one_label_scoring;
bool one_label_fits(const graph_t *graph);

#define ONE_LABEL                                                                                            \
    .about = "one class each", .kind = &task_classifiers, .metrics = one_label_metrics,                      \
    .scoring = &one_label_scoring, .fits = one_label_fits

/* The worst mistakes of an evaluation: the misclassified samples with the highest losses. They are ordered by
 * descending loss (NaN counts as the highest), then by index, so that the result does not depend on how
 * samples were distributed. */
typedef struct worst_sample {
    int64_t index; /* in the validation split */
    int32_t label, prediction;
    float loss;
    float probability; /* of the prediction */
} worst_sample_t;

typedef struct worst {
    comm_t *comm;
    int max, n;
    worst_sample_t *samples; /* [max]; the first n are in use, in order */
    worst_sample_t *all;     /* [size × max], scratch of worst_gather */
} worst_t;

/* Keeps at most `max` samples. Borrows the communicator. */
err_t worst_new(comm_t *comm, int max, worst_t *out);
void worst_free(worst_t *worst);

void worst_clear(worst_t *worst);

/* Inserts the sample if it is among the worst so far. Allocates nothing. */
void worst_offer(worst_t *worst, const worst_sample_t *sample);

/* Collective. Afterwards every rank holds the worst of all ranks. Allocates nothing. */
err_t worst_gather(worst_t *worst);

typedef struct mistakes {
    const char *checkpoint; /* path, for the heading */
    const dataset_t *dataset;
    split_t split;
    int64_t n, n_wrong;       /* samples of the evaluation, and mistakes among them */
    const worst_t *worst;     /* drawn in this order; may be empty */
    const char *const *names; /* [n_classes]; NULL: classes are numbers */
} mistakes_t;

/* Draws a contact sheet: each image enlarged, with its label, the prediction, its probability, and the sample's index.
 * Not collective; the same input yields the same pixels. Free the page with page_free. */
err_t mistakes_draw(const mistakes_t *mistakes, page_t **out);

#endif
