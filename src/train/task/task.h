/* SPDX-License-Identifier: MIT */
/* Tasks: what a model is trained for (--task). Each is a table in a file of its own; registry.c lists them. How
 * a task makes samples of images is the other half, data/load/samples.h. */
#ifndef TRAIN_TASK_TASK_H
#define TRAIN_TASK_TASK_H

#include "cluster/comm/comm.h"
#include "compute/models/model.h"
#include "data/dataset/dataset.h"
#include "data/show/page.h"
#include "train/task/metric.h"

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

/* What runs of a task have instead of the program's defaults; 0: no such. */
typedef struct task_defaults {
    int64_t batch;        /* samples per step */
    double rate;          /* of sgd and nesterov at that batch; in proportion at others */
    int64_t warmup_steps; /* at most a quarter of the run */
    double warmup_from;   /* as a fraction of the rate */
} task_defaults_t;

typedef struct task {
    const char *name; /* of --task */
    transform_task_t id;
    const char *about;            /* of its samples, for messages: "one class each" */
    const char *per_image;        /* after a number of classes: "any number per image"; or NULL */
    const task_metric_t *metrics; /* ends with a NULL name */
    task_defaults_t defaults;
    /* Heads and losses: sets what the builder of a model needs; and whether a graph has them. */
    void (*set_model)(model_options_t *options);
    bool (*fits)(const graph_t *graph);
    /* Probability of class k for `dptrain predict`. */
    double (*probability)(const float *logits, int n_classes, int k);
    /* The rest is NULL for detectors (train/detect/evaluate.h).
     * open (with n_worst set) and close once; begin, add for each batch of this rank, and end for each
     * evaluation. end: collective; fills in values[metrics->n], except the loss. */
    err_t (*open)(task_evaluation_t *e);
    void (*close)(task_evaluation_t *e);
    void (*begin)(task_evaluation_t *e);
    err_t (*add)(task_evaluation_t *e, const task_batch_t *batch);
    err_t (*end)(task_evaluation_t *e, double *values);
    /* What the result has beside its metrics, for `dptrain eval`. class_names: NULL: numbers. */
    void (*print)(const task_evaluation_t *e, const char *const *class_names);
    void (*json)(const task_evaluation_t *e, json_t *j);
    /* The picture of --png, and what it shows: "40 of 123 mistakes". NULL: the task has none. */
    err_t (*draw)(const task_evaluation_t *e, const char *const *class_names, const char *model, page_t **out,
                  char shown[TASK_PICTURE_TEXT_MAX]);
} task_t;

/* TASK_AUTO, of images in memory, is classify. */
const task_t *task_get(transform_task_t id);

/* The task of a dataset's samples. */
const task_t *task_of(const dataset_info_t *info);

/* The task that a graph was built for: `wanted` if the graph fits it, else the first that it fits. */
const task_t *task_of_graph(const graph_t *graph, transform_task_t wanted);

/* The metrics of a dataset's task; masks: of a detector that has them. */
task_metrics_t task_metrics(const dataset_info_t *info, bool masks);

#endif
