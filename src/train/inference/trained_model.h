/* SPDX-License-Identifier: MIT */
/* A trained model for `dptrain eval` and `dptrain predict`, from a checkpoint or from the weights of another
 * program. Rank 0 reads it and shares it with the others. */
#ifndef TRAIN_INFERENCE_TRAINED_MODEL_H
#define TRAIN_INFERENCE_TRAINED_MODEL_H

#include "base/fs.h"
#include "base/opt.h"
#include "cluster/comm/comm.h"
#include "cluster/session/runtime.h"
#include "compute/models/model.h"
#include "compute/ops/hd_buffer.h"
#include "data/annotation/sample.h"
#include "data/load/loader.h"
#include "train/detect/detector.h"

/* Options that describe FILE.npz; a checkpoint has its own values. */
typedef struct weights_options {
    const char *model, *names, *task, *eval_crop, *stem;
    int64_t input_size;
    bool size_of_file; /* input_size is weights_take_size's */
    double norm_epsilon;
} weights_options_t;
extern const opt_t weights_option_table[];
extern const int n_weights_options;

/* Whether the path names weights (.npz) rather than a checkpoint. */
bool trained_is_weights(const char *path);

/* ERR_USAGE: weights without --model, or options that do not apply to a checkpoint.
 *
 *   group  of weights_option_table, after parsing */
err_t weights_options_check(const weights_options_t *options, const opt_group_t *group, const char *path);

/* Rank 0, before the data is opened. Takes --input-size from the file unless it is given: exports have it. */
void weights_take_size(const char *path, weights_options_t *options);

/* The transform of images that the options describe. */
err_t weights_transform(const weights_options_t *options, transform_settings_t *out);

/* The part that is sent to the other ranks as it is. */
typedef struct trained_about {
    char path[FS_PATH_MAX];
    char data[FS_PATH_MAX]; /* that it was trained on, as in dataset_choose; "": unknown */
    char data_xxh3[20];
    char model[GRAPH_NAME_MAX];
    shape_t sample; /* [1, h, w, c] */
    int n_classes;
    dtype_t compute;
    bool detects;            /* a detector */
    model_norm_t batch_norm; /* of a detector's checkpoint */
    model_stem_t stem;       /* of a ResNet */
    double norm_epsilon;
    int64_t box_block, mask_block; /* model_options_t's */
    pixel_norm_t norm;
    transform_settings_t transform; /* of folders and shards, as in training */
    transform_task_t task;
    int64_t n_ranks, n_threads; /* of the training run; n_threads: per rank, 0 if unknown */
    bool weights;               /* from FILE.npz */
    char input[SHAPE_TEXT_MAX +
               64]; /* of weights: the images that they take, and why: "32×32×3, from the file" */
    bool averaged;  /* the weights are the checkpoint's moving average */
} trained_about_t;

typedef struct trained_model {
    trained_about_t about;
    graph_t *graph;
    hd_buffer_t params, states;
    char *freeze; /* model_options_t's: weights of frozen layers have other places; may be NULL */
    /* Rank 0 only; NULL: unknown. */
    char *algorithms;         /* the checkpoint's table */
    char *options;            /* of its run */
    char *class_text;         /* holds class_names */
    const char **class_names; /* [n_classes] */
    category_t *categories;   /* [n_categories] of a detector */
    int32_t n_categories;
} trained_model_t;

/* Collective. Reads a checkpoint, or the newest valid one of a folder, and shares it. Does nothing for weights, which
 * need to know their data first. Free *out with trained_free, also after an error. */
err_t trained_open(comm_t *comm, const char *where, const backend_t *backend, trained_model_t *out);

/* Collective. The number of threads of the training run, if it ran on as many ranks and here are more: for the same
 * bits. */
err_t trained_set_threads(const trained_about_t *about, runtime_t *runtime);

/* Rank 0. Imports weights.
 *
 *   info  data that tells the images' shape, their normalization and the classes. NULL: RGB images of
 *         --input-size, ImageNet's normalization, and the classes of the file. n_classes 0: those of the file
 *
 * ERR_DATA naming the array that does not fit. ERR_USAGE: the size of the images is unknown, and a ResNet's stem says
 * that it is not the default. */
err_t trained_import(const char *path, const weights_options_t *options, const dataset_info_t *info,
                     const backend_t *backend, trained_model_t *out);

/* Collective. Sends rank 0's model to the others. Host sides only. */
err_t trained_share(comm_t *comm, const backend_t *backend, trained_model_t *model);

/* Not collective. Copies the weights to the device and makes an executor on them.
 *
 *   algorithms  NULL: only the copy, for those who make executors of their own; *out stays */
err_t trained_exec_new(const trained_model_t *model, const backend_t *backend, const algorithms_t *algorithms,
                       exec_t **out);

void trained_free(trained_model_t *model);

/* The rest is for detectors. */
typedef struct detector_settings {
    canvas_options_t canvas;
    uint64_t canvas_given; /* opt_group_t.given of canvas_option_table */
    detections_options_t detections;
} detector_settings_t;

/* ERR_USAGE: an option was given that classifiers have and detectors do not, or, unless the model is a detector, the
 * other way round.
 *
 *   model   its name; NULL: unknown, no detector
 *   own     groups of options of detectors
 *   others  keys of options of classifiers, NULL-terminated; all among `groups` */
err_t detector_check_options(const char *model, const opt_group_t *own, int n_own, opt_group_t *groups,
                             int n_groups, const char *const *others);

/* Rank 0. The canvases that the options ask for; what they leave open is as in the run of a checkpoint. */
err_t detector_canvases(const trained_model_t *model, const detector_settings_t *settings, canvases_t *out);

/* Rank 0. Compares the classes of a checkpoint with those of data: ERR_DATA if other categories have the outputs. Warns
 * of other names.
 *
 *   data  for messages */
err_t detector_check_categories(const trained_model_t *model, const category_t *categories,
                                int32_t n_categories, const char *data);

/* Rank 0. Imports weights.
 *
 *   source  that has the classes, for messages; NULL: they are counted in the file, n_classes does not matter
 *
 * ERR_DATA: weights of another number of classes; others as trained_import. */
err_t detector_import(const char *path, const weights_options_t *options, const char *source, int n_classes,
                      const backend_t *backend, trained_model_t *out);

/* ERR_USAGE: `score` asks for masks that the model lacks.
 *
 *   masks  with "auto", whether there are masks */
err_t detector_choose_masks(const graph_t *graph, const char *score, bool *masks);

/* What runs a trained detector; starts zeroed. */
typedef struct detector_plan {
    algorithms_t algorithms;
    exec_t *exec; /* detector_options_t's; NULL: weights' */
} detector_plan_t;

/* Collective. Pushes the weights to the device. A checkpoint gets an executor with its own algorithms, for the bits of
 * its run's evaluation; rcnn_algorithms decides on canvases that the run did not have. After detectors are opened,
 * call exec_ready. */
err_t detector_plan_make(const runtime_t *runtime, const trained_model_t *model, const canvases_t *canvases,
                         detector_plan_t *out);
void detector_plan_free(detector_plan_t *plan);

#endif
