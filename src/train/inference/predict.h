/* SPDX-License-Identifier: MIT */
/* A trained model over image files: `dptrain predict`. */
#ifndef TRAIN_INFERENCE_PREDICT_H
#define TRAIN_INFERENCE_PREDICT_H

#include "base/fs.h"
#include "base/json.h"
#include "cluster/session/runtime.h"
#include "data/dataset/dataset.h"
#include "data/image/image.h"
#include "data/load/image_files.h"
#include "data/show/page.h"
#include "train/inference/trained_model.h"

typedef struct predict_options {
    const char *data;          /* names classes and, for weights, describes images; or NULL */
    const char *out;           /* output: folder of captioned images; or NULL */
    const char *json;          /* output: one object per line and image; or NULL */
    int64_t top;               /* classes per image */
    int64_t loader_threads;    /* 0: chosen */
    weights_options_t weights; /* of FILE.npz */
    double timeout_sec;
} predict_options_t;

/* Classifies: logs the best classes of every image. On one rank; ERR_USAGE otherwise.
 *
 *   where, model  as in evaluate_checkpoint
 *   list   at least one image
 *
 * ERR_DATA after all others are done if images could not be read; each is named in a warning. */
err_t predict_images(runtime_t *runtime, const char *where, trained_model_t *model, const image_list_t *list,
                     const predict_options_t *options);

typedef struct predict_detector_options {
    const char *
        data; /* names the classes: COCO's folder, shards, or a file of annotations; or NULL, as checkpoints do */
    const char *out;  /* output: folder of images with their objects; or NULL */
    const char *json; /* output: one object per line and image; NULL with `out`: predictions.json in it */
    double threshold; /* of the scores of objects that are drawn and printed */
    weights_options_t weights;
    detector_settings_t detector;
} predict_detector_options_t;

/* Logs, writes and draws the objects of every image. On one rank; ERR_USAGE otherwise.
 *
 *   where, model  as in evaluate_checkpoint
 *   list          at least one image
 *
 * ERR_DATA after all others are done if images could not be read or have shapes that detectors do not take; each is
 * named in a warning. */
err_t predict_detector(runtime_t *runtime, const char *where, trained_model_t *model,
                       const image_list_t *list, const predict_detector_options_t *options);

typedef struct prediction_class {
    int class;
    double probability;
} prediction_class_t;

/* A model's answer for one image: its best classes. */
typedef struct prediction {
    const char *image; /* path */
    const dataset_info_t *info;
    int n; /* of best */
    prediction_class_t *best;
} prediction_t;

/* The n classes with the highest scores, best first; of equal scores the lower class comes first, as in
 * evaluation. probability: the task's.
 *
 *   out  [n], n ≤ n_classes */
void prediction_rank(const float *logits, int n_classes,
                     double (*probability)(const float *logits, int n_classes, int k), int n,
                     prediction_class_t *out);

/* Logs the image, and below it a line per class. */
void prediction_print(const prediction_t *prediction);

/* Writes one object; docs/records.md describes its fields.
 *
 *   error  why the image could not be read, instead of its classes; or NULL */
void prediction_json(const prediction_t *prediction, const char *error, json_t *j);

/* Draws the image, reduced or enlarged to a handy size, above its classes. Free the page with page_free. */
err_t prediction_draw(const prediction_t *prediction, const image_t *image, page_t **out);

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

#endif
