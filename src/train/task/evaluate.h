/* SPDX-License-Identifier: MIT */
/* Evaluation of a split on all ranks; every sample counts exactly once. The split is cut into the same
 * batches on any number of ranks, and whole batches are distributed, because libraries may sum in another
 * order for other batch sizes: with equal threads the loss is bitwise identical everywhere. Images are
 * prefetched as in training. */
#ifndef TRAIN_TASK_EVALUATE_H
#define TRAIN_TASK_EVALUATE_H

#include "cluster/comm/comm.h"
#include "compute/graph/exec.h"
#include "data/dataset/dataset.h"
#include "data/show/page.h"
#include "train/feed/prefetcher.h"
#include "train/task/task.h"

/* An evaluation of a split. */
typedef struct task_evaluation {
    comm_t *comm;
    const dataset_t *dataset;
    split_t split;
    const task_metrics_t *metrics;
    int64_t n, n_mine; /* samples to evaluate: of all ranks, of this one */
    int n_worst;       /* of the picture: at most this many samples; 0: there will be none */
    void *impl;        /* the task's */
} task_evaluation_t;

/* A batch of this rank after its forward pass, in host memory. */
typedef struct task_batch {
    int64_t first, n;            /* place among this rank's samples */
    const int64_t *index;        /* [n], of the samples within the split */
    const batch_field_t *fields; /* as samples_fields lists them */
    const float *losses;         /* [n] */
    const float *logits;         /* [n, n_classes] */
    const int32_t *predictions;  /* [n]; NULL if the model has none */
} task_batch_t;

enum { TASK_PICTURE_TEXT_MAX = 64 };

/* What a classifier's task makes of the scores of classes: task_t.scoring. */
typedef struct task_scoring {
    /* Probability of class k for `dptrain predict`. */
    double (*probability)(const float *logits, int n_classes, int k);
    /* open (with n_worst set) and close once; begin, add for each batch of this rank, and end for each
     * evaluation. end: collective; fills in values[metrics->n], except the loss. */
    err_t (*open)(task_evaluation_t *e);
    void (*close)(task_evaluation_t *e);
    void (*begin)(task_evaluation_t *e);
    err_t (*add)(task_evaluation_t *e, const task_batch_t *batch);
    err_t (*end)(task_evaluation_t *e, double *values);
    /* What the result has beside its metrics, for `dptrain eval`, and for records of training. class_names: NULL:
     * numbers. */
    void (*print)(const task_evaluation_t *e, const char *const *class_names);
    void (*json)(const task_evaluation_t *e, json_t *j);
    /* The picture of --png, and what it shows: "40 of 123 mistakes". NULL: the task has none. */
    err_t (*draw)(const task_evaluation_t *e, const char *const *class_names, const char *model, page_t **out,
                  char shown[TASK_PICTURE_TEXT_MAX]);
} task_scoring_t;

/* Images per batch: 128, or fewer large ones (32 of 224×224, at least 8) so that activations fit beside
 * training. The same on any number of ranks. */
int64_t evaluation_batch(const dataset_t *dataset);

/* The number of samples to evaluate of a split: `limit` of them, evenly spaced, or all; 0: all. */
int64_t evaluation_samples(const dataset_t *dataset, split_t split, int64_t limit);

/* The split that training evaluates: validation, or training if there are no validation samples. */
split_t evaluation_split(const dataset_t *dataset);

typedef struct evaluator_options {
    comm_t *comm;
    exec_t *exec; /* prepared by evaluator_open; the caller calls exec_ready */
    const backend_t *backend;
    const dataset_t *dataset;
    const task_t *task; /* the dataset's, with scoring */
    split_t split;
    int64_t limit;          /* as in evaluation_samples */
    pixel_norm_t norm;      /* as in training */
    corrupt_samples_t *bad; /* as in loader_options_t */
    int n_threads;          /* of the loader */
    double timeout_sec;
    /* Receives this rank's scores, batch by batch in order; NULL: nothing does.
     *
     *   index   [n], of the samples within the split
     *   logits  [n, n_classes] */
    err_t (*take)(void *context, const int64_t *index, const float *logits, int64_t n);
    void *take_context;
    int n_worst; /* task_evaluation_t's */
} evaluator_options_t;

typedef struct evaluator {
    evaluator_options_t options;
    comm_t *comm;
    const dataset_t *dataset;
    const task_t *task;
    task_metrics_t metrics;
    task_evaluation_t evaluation; /* the task's */
    int64_t batch;                /* evaluation_batch */
    int64_t first, n;             /* this rank's samples */
    sampler_t *sampler;
    prefetcher_t prefetcher;
    int64_t *index;                                 /* of the current batch */
    void *fields[FIELDS_MAX], *offsets[FIELDS_MAX]; /* of the current batch */
    int64_t n_batches;                              /* of all ranks */
    double *losses;                                 /* [n_batches], summed over each batch */
} evaluator_t;

/* Borrows everything in `options`; prepares the executor for its batch sizes. */
err_t evaluator_open(const evaluator_options_t *options, evaluator_t *out);
void evaluator_close(evaluator_t *evaluator); /* also of a zeroed one */

/* Collective. Allocates only what the task's metrics need at the end. */
err_t evaluator_run(evaluator_t *evaluator, evaluation_t *out);

#endif
