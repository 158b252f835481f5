/* SPDX-License-Identifier: MIT */
/* Evaluates a checkpoint with the algorithms that it holds, on the data that it was trained on or on other
 * data. */
#ifndef TRAIN_RUN_EVALUATE_CHECKPOINT_H
#define TRAIN_RUN_EVALUATE_CHECKPOINT_H

#include "cluster/session/runtime.h"
#include "data/load/loader.h"

typedef struct evaluate_options {
    const char *data; /* NULL: what it was trained on */
    split_t split;
    const char *png;  /* NULL, or the image of the worst mistakes to draw */
    const char *json; /* NULL, or the file for the result */
    int64_t n_worst;  /* mistakes that png shows */
    loader_settings_t loader;
    double timeout_sec;
} evaluate_options_t;

/* Collective. where: a checkpoint, or the folder of a run, of which the newest good one is taken. The result
 * goes to the log. ERR_DATA where data and model do not fit each other, ERR_USAGE for an image of data with
 * several labels a sample. */
err_t evaluate_checkpoint(runtime_t *runtime, const char *where, const evaluate_options_t *options);

#endif
