/* SPDX-License-Identifier: MIT */
/* Evaluates a checkpoint with its own algorithms, on its own data or other data, or imported weights. */
#ifndef TRAIN_INFERENCE_EVALUATE_CHECKPOINT_H
#define TRAIN_INFERENCE_EVALUATE_CHECKPOINT_H

#include "cluster/session/runtime.h"
#include "data/load/loader.h"
#include "train/inference/trained_model.h"

typedef struct evaluate_options {
    const char *data; /* NULL: the checkpoint's */
    split_t split;
    const char *png;           /* output: contact sheet of the worst mistakes; or NULL */
    const char *json;          /* output: the result; or NULL */
    int64_t n_worst;           /* mistakes to draw in png */
    weights_options_t weights; /* of FILE.npz */
    loader_settings_t loader;
    double timeout_sec;
    bool threads_given; /* by --threads; otherwise fewer if training used fewer */
} evaluate_options_t;

/* Collective. Logs the result.
 *
 *   where   a checkpoint, a run's folder (its newest valid checkpoint), or weights (FILE.npz)
 *   model   what trained_open made of it; weights are read into it
 *
 * ERR_DATA when data and model do not match; ERR_USAGE for options->png with multi-label data. */
err_t evaluate_checkpoint(runtime_t *runtime, const char *where, trained_model_t *model,
                          const evaluate_options_t *options);

#endif
