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
#include "train/feed/prefetcher.h"
#include "train/task/task.h"

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

typedef struct evaluation {
    int64_t n;                       /* samples */
    double loss;                     /* mean over them; 0: the task has none */
    double values[TASK_MAX_METRICS]; /* of evaluator_t.metrics */
} evaluation_t;

/* Borrows everything in `options`; prepares the executor for its batch sizes. */
err_t evaluator_open(const evaluator_options_t *options, evaluator_t *out);
void evaluator_close(evaluator_t *evaluator);

/* Collective. Allocates only what the task's metrics need at the end. */
err_t evaluator_run(evaluator_t *evaluator, evaluation_t *out);

#endif
