/* SPDX-License-Identifier: MIT */
/* What a detector's step takes by part, on each rank. Images are dealt to ranks by an estimate of their cost: where it is
 * wrong, some ranks wait for others, and this tells which part kept those busy. */
#ifndef TRAIN_OUTPUT_PROFILE_PARTS_H
#define TRAIN_OUTPUT_PROFILE_PARTS_H

#include "base/json.h"
#include "cluster/comm/comm.h"
#include "compute/graph/exec.h"
#include "compute/models/rcnn.h"

/* Seconds of a step on one rank. */
typedef struct profile_parts {
    double part[RCNN_PARTS]; /* layers, both passes; of proposals and masks also `host` */
    double host;             /* proposals and targets of boxes, targets of masks */
    double waiting;          /* exposed comm */
    double total;            /* of the step: also data, the optimizer, copies, the sum over images */
} profile_parts_t;

/* Adds the layers' seconds, which are a sum over n_steps steps, to the parts. */
void profile_parts_add(const graph_t *graph, const exec_cost_t *costs, int64_t n_steps,
                       profile_parts_t *parts);

/* Seconds of a step outside of parts and waiting. */
double profile_parts_other(const profile_parts_t *parts);

/* Logs a table with a row per rank; for more than PROFILE_PARTS_ROWS ranks the least, the median and the greatest
 * of each column. */
enum { PROFILE_PARTS_ROWS = 8 };
void profile_parts_print(const profile_parts_t *ranks, int n_ranks);

/* Adds the array "parts" of the profile record, by rank. */
void profile_parts_json(const profile_parts_t *ranks, int n_ranks, json_t *j);

#endif
