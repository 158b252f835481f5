/* SPDX-License-Identifier: MIT */
/* Trained models at work: `dptrain eval` and `dptrain predict`. A model comes from a checkpoint or from the weights of
 * another program. */
#ifndef TRAIN_INFERENCE_INFERENCE_H
#define TRAIN_INFERENCE_INFERENCE_H

#include "cluster/session/runtime.h"
#include "data/load/image_files.h"
#include "data/load/loader.h"
#include "data/score/score.h"
#include "data/transform/canvas.h"
#include "text/opt.h"
#include "train/detect/postprocess.h"

/* Options that describe weights; a checkpoint has its own values. */
typedef struct weights_options {
    const char *model; /* NULL: not weights, but a checkpoint */
    const char *names, *task, *eval_crop, *stem;
    int64_t input_size;
    bool size_of_file; /* input_size is weights_take_size's */
    double norm_epsilon;
} weights_options_t;
extern const opt_t weights_option_table[];
extern const int n_weights_options;

/* Options of both commands and both kinds of models. Outputs may be NULL. */
typedef struct inference_options {
    const char
        *where; /* a checkpoint, a run's folder (its newest valid checkpoint), or weights (arrays_named) */
    const char
        *data; /* NULL: evaluation takes the checkpoint's; prediction knows the classes from `where` alone */
    const char *json; /* output: the result; of a prediction, one object per line and image */
    weights_options_t weights;
    loader_settings_t loader;
    double timeout_sec;
    bool threads_given; /* by --threads; otherwise fewer if training used fewer */
    /* Evaluation. */
    split_t split;
    const char *png;           /* output: contact sheet of the worst mistakes */
    int64_t n_worst;           /* mistakes to draw in png; of detectors, images */
    bool skip_unmasked;        /* truths_skip_unmasked */
    score_type_t score;        /* of detectors; SCORE_TYPE_COUNT: what the model or the files have */
    const char *write_results; /* output of detectors: folder of bbox.json and segm.json */
    bool per_category;
    /* Prediction. */
    const image_list_t *images; /* at least one; NULL: an evaluation */
    const char
        *out;    /* output: folder of captioned images; of detectors, without json, also predictions.json */
    int64_t top; /* classes per image */
    double threshold; /* of the scores of objects that are drawn and printed */
    /* Detectors. */
    canvas_options_t canvas;
    uint64_t canvas_given; /* opt_group_t.given of canvas_option_table */
    detections_options_t detections;
} inference_options_t;

/* ERR_USAGE: weights without --model, or options that do not apply to a checkpoint.
 *
 *   group  of weights_option_table, after parsing */
err_t weights_options_check(const inference_options_t *options, const opt_group_t *group);

/* ERR_USAGE: options that do not apply to the kind of model that weights are for, or --data is missing. What a
 * checkpoint holds is not known yet. */
err_t inference_check(const inference_options_t *options, const opt_group_t *groups, int n_groups);

/* Collective. Evaluates the model on a split and logs the result; or predicts images, on one rank (ERR_USAGE otherwise),
 * and logs the classes or objects of each. Results do not depend on the number of ranks, as long as each has as many
 * threads.
 *
 *   groups  of all options, to check them against the kind of model that a checkpoint holds
 *
 * ERR_DATA when data and model do not match; after all others are done if images to predict could not be read, each of
 * which is named in a warning. ERR_USAGE for options->png with multi-label data. */
err_t inference_run(runtime_t *runtime, const inference_options_t *options, const opt_group_t *groups,
                    int n_groups);

/* Collective. Scores detections that any program wrote in COCO's results format: rank 0 reads and scores, logs the
 * numbers and writes them; the others wait. A file without detections scores 0: as options->score, else by its name, as
 * …bbox.json or …segm.json, else as what the other file has not.
 *
 *   files    boxes, masks, or one file with both; the second may be NULL
 *   options  of these data (COCO's folder, shards, or a file of annotations), split, score, json and per_category
 *
 * ERR_DATA: see truths_read, results_read and score_results; or both files have boxes, or both masks; or one has no
 * detections, and nothing says of what. */
err_t evaluate_results(comm_t *comm, const char *const files[2], const inference_options_t *options);

#endif
