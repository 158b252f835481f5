/* SPDX-License-Identifier: MIT */
/* Scores detections that any program wrote in COCO's results format. */
#ifndef TRAIN_INFERENCE_EVALUATE_RESULTS_H
#define TRAIN_INFERENCE_EVALUATE_RESULTS_H

#include "cluster/comm/comm.h"
#include "data/annotation/sample.h"
#include "data/score/results.h"

typedef struct results_options {
    const char *files[2]; /* boxes, masks, or one file with both; the second may be NULL */
    const char *data;     /* COCO's folder, shards, or a file of annotations */
    split_t split;
    score_type_t want; /* SCORE_TYPE_COUNT: what the files have */
    const char *json;  /* output: the numbers; or NULL */
    bool per_category;
} results_options_t;

/* Collective. Rank 0 reads and scores, logs the numbers and writes them; the others wait. A file without
 * detections scores 0: as what is wanted, else by its name, as …bbox.json or …segm.json, else as what the other
 * file has not. ERR_DATA: see truths_read, results_read and score_results; or both files have boxes, or both
 * masks; or one has no detections, and nothing says of what. */
err_t evaluate_results(comm_t *comm, const results_options_t *options);

#endif
