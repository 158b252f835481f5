/* SPDX-License-Identifier: MIT */
/* The inputs of losses in a detector's graph (compute/models/rcnn.h) and their memory: a label, some target values and
 * a weight a row. Not collective. */
#ifndef TRAIN_DETECT_TARGET_INPUTS_H
#define TRAIN_DETECT_TARGET_INPUTS_H

#include "compute/graph/exec.h"
#include "compute/ops/hd_buffer.h"

/* Inputs of the graph, by index. */
typedef struct target_ports {
    int label, target, weight;
} target_ports_t;

/* Those of a group of losses: "box.label", "box.target", "box.weight". */
target_ports_t target_ports(const graph_t *graph, const char *group);

typedef struct target_inputs {
    int64_t n_values;                     /* target values of a row */
    hd_buffer_t labels, targets, weights; /* int32_t [n], float [n, n_values], float [n] */
} target_inputs_t;

/* Host memory of the caller, to compute targets in place; NULL: target_inputs_new allocates it. */
typedef struct target_memory {
    int32_t *labels;
    float *targets, *weights;
} target_memory_t;

/* For n rows. Free with target_inputs_free, also after an error. */
err_t target_inputs_new(const backend_t *backend, int64_t n, int64_t n_values, target_memory_t host,
                        target_inputs_t *out);
/* Accepts all zeros. */
void target_inputs_free(target_inputs_t *inputs);

/* Where a row begins, on the host. */
target_memory_t target_inputs_row(const target_inputs_t *inputs, int64_t row);

/* Copies n rows to the backend, as hd_buffer_push. */
err_t target_inputs_push(const target_inputs_t *inputs, int64_t first, int64_t n);

/* Sets a batch's inputs to the rows from `first` on. */
void target_inputs_set(const target_inputs_t *inputs, int64_t first, target_ports_t ports,
                       exec_batch_t *batch);

#endif
