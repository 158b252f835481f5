/* SPDX-License-Identifier: MIT */
/* Tasks: what a model is trained for (--task). Each is a table in a file of its own; registry.c lists them. Tasks of one
 * kind share how they train: classifiers (classifier.c) and detectors (train/detect/task.c). How a task makes samples of
 * images is the other half, data/load/samples.h. */
#ifndef TRAIN_TASK_TASK_H
#define TRAIN_TASK_TASK_H

#include "compute/graph/exec.h"
#include "compute/models/model.h"
#include "compute/ops/hd_buffer.h"
#include "train/feed/prefetcher.h"
#include "train/task/metric.h"

/* What runs of a kind have instead of the program's defaults; 0: no such. */
typedef struct task_defaults {
    int64_t batch;        /* samples per step */
    double rate;          /* of sgd and nesterov at that batch; in proportion at others */
    int64_t warmup_steps; /* at most a quarter of the run */
    double warmup_from;   /* as a fraction of the rate */
    /* Where no option says otherwise, of a network without --weights, whose layers learn at very different speeds. */
    const char *scratch_optimizer;
    double scratch_rate;
} task_defaults_t;

/* An option that does not apply to a kind of task: it must keep its default. */
typedef struct task_lack {
    const char *key, *why;
} task_lack_t;

/* What a run gives its task, all borrowed, as far as set-up has come. */
typedef struct task_run {
    const struct task *task; /* of the dataset's samples */
    comm_t *comm;
    const backend_t *backend;
    const dataset_t *dataset;
    const dataset_weigher_t *weigher;
    const sampler_t *sampler;
    corrupt_samples_t *bad; /* NULL: images in memory */
    const char *model;
    const void *options; /* the kind's */
    int64_t seed, eval_samples;
    int64_t global_batch, max_local; /* samples per step: over all ranks, at most on this one */
    int n_shards, n_parts;           /* this rank's shards of a batch; parts of each */
    int64_t grain;                   /* parts begin at multiples of this */
    int n_loader_threads;
    double timeout_sec;
    bool has_weights, sync_bn, eval;
    model_form_t form; /* of a detector, by --weights or the checkpoint of a resumed run */
    const graph_t *graph;
    const task_metrics_t *metrics;
    exec_t *exec;
    float *params, *states, *grads; /* of the backend */
    /* The task's own. */
    int64_t micro_batch; /* samples per pass, at most; 0: a pass is a part of a shard */
    void *state;
} task_run_t;

/* Seconds of passes; on a GPU, the run measures forward and backward itself. */
typedef struct task_cost {
    double forward, backward;
    double boxes, masks; /* of detectors, on the host: proposals and targets of boxes, targets of masks */
} task_cost_t;

typedef enum task_phase { TASK_FORWARD, TASK_BACKWARD } task_phase_t;

/* Forward and backward of one part of this rank's batch. */
typedef struct task_pass {
    const exec_batch_t *part; /* its tally is the device side of `sums` */
    const prefetcher_batch_t *data;
    const hd_buffer_t *sums; /* the first TASK_N_SUMS floats, which are added to */
    exec_ready_hook_t ready; /* as in exec_backward; need not be called */
    void *ready_context;
    /* To be called at the end of forward, then of backward. *when_sec: clock_sec. */
    err_t (*ended)(void *context, task_phase_t phase, int64_t n, double *when_sec);
    void *context;
} task_pass_t;

enum { TASK_WHERE_MAX = EXEC_WHERE_MAX + 256 };

/* A kind of task. Operations are not collective unless stated; NULL where `or NULL` is stated: there is nothing to do. */
typedef struct task_kind {
    const char *name; /* "detector" */
    const char *task; /* the only one that it has; or NULL */
    bool detects;     /* model_t's */
    bool is_default;  /* that of a model which is not named */
    task_defaults_t defaults;
    const task_lack_t *lacks; /* ends with a NULL key; or NULL */
    int n_option_groups;      /* of options that this kind has alone, after those of all */
    const char *why_host;     /* why the host intervenes within a step; or NULL */
    bool on_canvas;           /* images keep their shape, and batches are formed of images alike */
    int passes_per_sample;    /* of all layers, that a trace has room for; 0: one for each part of a shard */
    const char *sources;      /* heading of the lines about the source of the data */
    const char *const *sum_names; /* [TASK_N_SUMS] sums that checkpoints keep beside the first two; or NULL */
    /* algorithm_request_t.rule; or NULL. */
    err_t (*rule)(const graph_t *graph, const backend_t *backend, const batch_size_t *sizes, int n_sizes,
                  algorithms_t *out);
    /* Checks the kind's options, and --task; applies the options to how images are transformed. */
    err_t (*check_options)(const void *options, const char *task);
    err_t (*transform)(const void *options, transform_settings_t *settings); /* or NULL */

    /* Set-up, in this order: completes what the model is built with (or NULL); refuses a model or data that do not fit
     * the run, and chooses the micro-batch (or NULL); lists the sizes to choose algorithms for
     * (sizes[ALGORITHMS_MAX_SIZES], after the *n that are there; free *shapes with mem_free; collective); plans all batches and the evaluation. */
    err_t (*set_model)(task_run_t *run, model_options_t *options);
    err_t (*check_model)(task_run_t *run);
    err_t (*list_sizes)(const task_run_t *run, batch_size_t *sizes, int *n, shape_t **shapes);
    err_t (*plan)(task_run_t *run);
    void (*close)(task_run_t *run); /* at any time */
    /* The header's line on the images. */
    void (*describe)(const task_run_t *run);
    /* The targets of sample i of a batch, for --preview. `out` has the size of the pixels, which may be changed. */
    err_t (*show)(const task_run_t *run, const batch_t *batch, int64_t i, arena_t *memory, sample_t *out);

    /* Overwrites the gradients. On the host also adds spans to the trace. */
    err_t (*pass)(task_run_t *run, const task_pass_t *pass, task_cost_t *cost);
    /* After a step whose loss is not finite: where NaN or infinity first appeared; "" if this part is finite. */
    err_t (*find_nonfinite)(task_run_t *run, const exec_batch_t *part, char where[TASK_WHERE_MAX]);
    /* Collective. Adds to the record of the last step, of n samples over all ranks. j: NULL on ranks that do not write. Or
     * NULL. */
    err_t (*record)(task_run_t *run, int64_t n, json_t *j);
    /* Collective. */
    err_t (*evaluate)(task_run_t *run, evaluation_t *out);
    /* What the last evaluation has beside its metrics, for its record. NULL: nothing. */
    void (*put_evaluation)(const task_run_t *run, json_t *j);
} task_kind_t;

extern const task_kind_t task_classifiers;

typedef struct task {
    const char *name; /* of --task */
    transform_task_t id;
    const task_kind_t *kind;
    const char *about;                  /* of its samples, for messages: "one class each" */
    const char *per_image;              /* after a number of classes: "any number per image"; or NULL */
    const task_metric_t *metrics;       /* ends with a NULL name */
    bool whole_images;                  /* samples are whole images, cropped and resized */
    bool multi_label;                   /* model_options_t's */
    const struct task_scoring *scoring; /* train/task/evaluate.h; NULL: of detectors */
    /* Whether a graph has the task's heads and losses. */
    bool (*fits)(const graph_t *graph);
} task_t;

/* TASK_AUTO, of images in memory, is classify; task_of: of a dataset's samples. */
const task_t *task_get(transform_task_t id);
const task_t *task_of(const dataset_info_t *info);

/* The kind of tasks that a model is for. */
const task_kind_t *task_kind_of(const model_t *model);

/* The task that a graph was built for: `wanted` if the graph fits it, else the first that it fits. */
const task_t *task_of_graph(const graph_t *graph, transform_task_t wanted);

/* The metrics of a dataset's task; masks: of a detector that has them. */
task_metrics_t task_metrics(const dataset_info_t *info, bool masks);

#endif
