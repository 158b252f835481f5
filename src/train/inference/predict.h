/* SPDX-License-Identifier: MIT */
/* Classifies image files with a trained model. */
#ifndef TRAIN_INFERENCE_PREDICT_H
#define TRAIN_INFERENCE_PREDICT_H

#include "cluster/session/runtime.h"
#include "data/load/image_files.h"
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

/* Logs the best classes of every image. On one rank; ERR_USAGE otherwise.
 *
 *   where, model  as in evaluate_checkpoint
 *   list   at least one image
 *
 * ERR_DATA after all others are done if images could not be read; each is named in a warning. */
err_t predict_images(runtime_t *runtime, const char *where, trained_model_t *model, const image_list_t *list,
                     const predict_options_t *options);

#endif
