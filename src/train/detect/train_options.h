/* SPDX-License-Identifier: MIT */
/* Options of training a detector. Not collective. */
#ifndef TRAIN_DETECT_TRAIN_OPTIONS_H
#define TRAIN_DETECT_TRAIN_OPTIONS_H

#include "compute/models/model.h"
#include "data/transform/settings.h"
#include "train/detect/targets.h"

/* With 64 canvases (data/transform/canvas.h), as many plans as compute/graph/exec.h has room for. */
enum { DETECT_MAX_MICRO_BATCH = 64 };

typedef struct detect_train_options {
    canvas_options_t canvas; /* set by canvas_option_table */
    const char *norm;
    double norm_epsilon;
    int64_t trainable_layers; /* 0: by default */
    int64_t rpn_batch, rpn_topk, box_batch, mask_block;
    int64_t micro_batch; /* 0: by default */
    bool keep_empty, skip_unmasked;
} detect_train_options_t;
extern const opt_t detect_train_option_table[];
extern const int n_detect_train_options;

/* Sets the canvases and what samples are. Errors of canvases_new. */
err_t detect_train_transform(const detect_train_options_t *options, transform_settings_t *settings);

/* The layers to freeze beside those in `freeze` (may be NULL), as model_options_t has them: all of the trunk but its
 * last `trainable_layers`, torchvision's rule. By default 3 are trained if the trunk has weights, else 5, which
 * are all. Free *out with mem_free; NULL: none. */
err_t detect_train_freeze(const detect_train_options_t *options, bool has_weights, const char *freeze,
                          char **out);

/* model_options_t.box_block: few sampled regions need few rows; more blocks of an evaluation's 1000 read the weights again. */
int64_t detect_train_box_block(const detect_train_options_t *options);

/* What is sampled and proposed. */
targets_options_t detect_train_targets(const detect_train_options_t *options);
proposals_options_t detect_train_proposals(const detect_train_options_t *options);

#endif
