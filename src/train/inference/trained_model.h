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

void trained_free(trained_model_t *model);

#endif
