/* SPDX-License-Identifier: MIT */
/* Of this room: a trained model, which rank 0 reads from a checkpoint or weights and shares with the others; what each
 * kind of model does; the files of predictions. */
#ifndef TRAIN_INFERENCE_TRAINED_MODEL_H
#define TRAIN_INFERENCE_TRAINED_MODEL_H

#include <stdio.h>

#include "base/fs.h"
#include "compute/graph/exec.h"
#include "compute/models/model.h"
#include "compute/ops/hd_buffer.h"
#include "data/annotation/sample.h"
#include "data/dataset/dataset.h"
#include "data/score/results.h"
#include "store/checkpoint/file.h"
#include "text/json.h"
#include "text/table.h"
#include "train/inference/inference.h"

/* The part that is sent to the other ranks as it is. */
typedef struct trained_about {
    char path[FS_PATH_MAX];
    char data[FS_PATH_MAX]; /* that it was trained on, as in dataset_choose; "": unknown */
    char data_xxh3[20];
    char model[GRAPH_NAME_MAX];
    model_options_t build; /* its pointers mean nothing: norm_epsilon and freeze stand apart */
    double norm_epsilon;
    pixel_norm_t norm;
    transform_settings_t transform; /* of folders and shards, as in training */
    transform_task_t task;
    int64_t n_ranks, n_threads; /* of the training run; n_threads: per rank, 0 if unknown */
    bool weights;               /* from a file of arrays */
    char classes[FS_PATH_MAX];  /* of weights: the file that names their classes; "": none */
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

/* Rank 0. Reads attributes that only checkpoints of a kind of model have. */
typedef err_t (*trained_read_t)(const checkpoint_t *checkpoint, trained_model_t *model);

/* What a kind of model does; kinds.c lists them and chooses by the model's name. */
typedef struct inference {
    /* ERR_USAGE: an option was given that only the other kind has, or weights lack one that they need.
     *
     *   model  its name */
    err_t (*check_options)(const char *model, const inference_options_t *options, const opt_group_t *groups,
                           int n_groups);
    trained_read_t read; /* NULL: there are none */
    /* Collective; see inference_run.
     *
     *   model  as trained_open left it; weights are read into it */
    err_t (*evaluate)(runtime_t *runtime, trained_model_t *model, const inference_options_t *options);
    err_t (*predict)(runtime_t *runtime, trained_model_t *model, const inference_options_t *options);
} inference_t;

/* Rank 0, before the data is opened. Takes --input-size from the file unless it is given: exports have it. */
void weights_take_size(const char *path, weights_options_t *options);

/* The transform of images that the options describe. */
err_t weights_transform(const weights_options_t *options, transform_settings_t *out);

/* Collective. Reads a checkpoint, or the newest valid one of a folder, and shares it. Of weights only notes that they
 * are weights: they need to know their data first. Free *out with trained_free, also after an error. */
err_t trained_open(comm_t *comm, const char *where, const backend_t *backend, trained_read_t read_rest,
                   trained_model_t *out);

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

/* For the console: the model, and the data that it is evaluated on. The caller adds rows, then logs and frees it.
 *
 *   model     what it finds: "10 classes"; NULL: it has no row
 *   data      NULL: a prediction, which has no row of data either
 *   lines     more about the data
 *   is_other  the model was trained on other data */
table_t trained_table(const trained_about_t *about, const char *model, const char *data, const char *lines,
                      bool is_other);

/* The files written: a folder of pictures, and a JSON object per line and image. */
typedef struct prediction_files {
    const char *folder; /* NULL: no pictures */
    json_t json;        /* the next line; the caller writes it */
    fs_temp_t file;
    FILE *stream; /* NULL: no lines */
} prediction_files_t;

/* Creates the folder and the file; either may be NULL. Close them, also after an error. */
err_t prediction_files_open(const char *folder, const char *json, prediction_files_t *out);

/* Writes the line, if there is a file, and empties it. */
err_t prediction_files_line(prediction_files_t *files);

/* The path of an image's picture, FOLDER/000001-NAME.png; the number keeps names apart and in order. */
err_t prediction_files_picture(const prediction_files_t *files, int64_t index, const char *image,
                               char out[FS_PATH_MAX]);

/* Makes the file of lines appear. */
err_t prediction_files_commit(prediction_files_t *files);
void prediction_files_close(prediction_files_t *files);

/* The rest is for tests. */
typedef struct prediction_class {
    int class;
    double probability;
} prediction_class_t;

/* The n classes with the highest scores, best first; of equal scores the lower class comes first, as in
 * evaluation. probability: the task's.
 *
 *   out  [n], n ≤ n_classes */
void prediction_rank(const float *logits, int n_classes,
                     double (*probability)(const float *logits, int n_classes, int k), int n,
                     prediction_class_t *out);

/* An object is found if a detection of its category with the threshold's score has an IoU of 0.5 with it and
 * finds no other. Crowds are no objects; a detection of which at least half lies in one is neither right nor wrong. */
typedef struct worst_image {
    int32_t image;    /* row of the truths */
    int64_t first, n; /* its detections among the results, which are sorted by image */
    int32_t found, missed, wrong;
} worst_image_t;

/* The worst first: by the share of right among all, 2 · found / (2 · found + missed + wrong), ascending, then by
 * the number of mistakes, then by the image's id.
 *
 *   results  sorted by image, in each by score
 *   out      [truths->n_images] receives all images */
err_t worst_images(const truths_t *truths, const results_t *results, double threshold, worst_image_t *out);

#endif
