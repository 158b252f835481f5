/* SPDX-License-Identifier: MIT */
/* Evaluation over a split, sharded: every sample counts exactly once on any number of ranks. The split is cut
 * into the same batches on any number of ranks and whole batches are shared out, as a library may compute
 * small batches in another order: with equal threads the loss has the same bits everywhere. Images are read
 * as in training, ahead of the work. */
#ifndef TRAIN_EVALUATE_EVALUATE_H
#define TRAIN_EVALUATE_EVALUATE_H

#include "cluster/comm/comm.h"
#include "compute/graph/exec.h"
#include "data/dataset/dataset.h"
#include "train/evaluate/worst.h"
#include "train/feed/prefetcher.h"

enum { EVAL_FEW = 20 };

/* Images of a batch: 128, and of large ones fewer, as their activations would fill the memory that training
 * has to spare (32 of 224×224, 8 at least). The same on any number of ranks. */
int64_t evaluation_batch(const dataset_t *dataset);

/* What training evaluates: the validation split, or the training split where there are no validation samples.
 */
split_t evaluation_split(const dataset_t *dataset);

typedef struct evaluator_options {
    comm_t *comm;
    exec_t *exec; /* prepared by evaluator_open, made ready by the caller */
    const backend_t *backend;
    const dataset_t *dataset;
    split_t split;
    pixel_norm_t norm;      /* that the network was trained with */
    corrupt_samples_t *bad; /* as loader_options_t's */
    int n_threads;          /* of the loader */
    double timeout_sec;
} evaluator_options_t;

typedef struct evaluator {
    evaluator_options_t options;
    comm_t *comm;
    const dataset_t *dataset;
    int64_t batch;    /* evaluation_batch */
    int64_t first, n; /* this rank's samples */
    sampler_t *sampler;
    prefetcher_t prefetcher;
    int64_t *index;    /* of the batch that is evaluated */
    int32_t *labels;   /* of it */
    int64_t *counts;   /* right ones, in the best five, then the confusion, where there is one */
    int64_t n_batches; /* of all ranks */
    double *losses;    /* sum over each of them */
    /* Where samples have several labels, of all samples of all ranks: [n, classes]; elsewhere NULL. */
    float *scores, *targets;
    double *precisions; /* [classes] */
    worst_t *worst; /* NULL, or the caller's: evaluator_run leaves the worst mistakes of all ranks there */
} evaluator_t;

typedef struct evaluation {
    int64_t n, n_correct;
    double loss;
    double accuracy;          /* where samples have several labels: mAP, the mean of precisions */
    const double *precisions; /* average precision of each class, NaN without a positive sample; or NULL */
    double top5; /* share of samples whose label is among the five best scores; NaN with up to EVAL_FEW
                    classes */
    /* [label][prediction], over all ranks, the evaluator's own; NULL with more than EVAL_FEW classes, or
     * several labels a sample */
    const int64_t *confusion;
} evaluation_t;

/* Borrows everything; prepares the executor for the batch sizes it will use. */
err_t evaluator_open(const evaluator_options_t *options, evaluator_t *out);
void evaluator_close(evaluator_t *evaluator);

/* Collective. Allocates nothing (for precisions scratch). */
err_t evaluator_run(evaluator_t *evaluator, evaluation_t *out);

#endif
