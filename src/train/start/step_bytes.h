/* SPDX-License-Identifier: MIT */
/* Launches of a training step and the bytes that they move, counted without a device. Not collective. */
#ifndef TRAIN_START_STEP_BYTES_H
#define TRAIN_START_STEP_BYTES_H

#include "compute/graph/graph.h"

typedef struct step_bytes_options {
    const char *device;
    int64_t batch;
    int64_t workspace_bytes; /* as --workspace */
    const char *algorithm;   /* for each pass that has one of this name; NULL: the backend's defaults */
} step_bytes_options_t;

typedef struct kernel_bytes {
    const char *name; /* static */
    int64_t n_launches, n_bytes;
} kernel_bytes_t;

enum { STEP_BYTES_MAX = 64 };

typedef struct step_bytes {
    kernel_bytes_t kernels[STEP_BYTES_MAX]; /* the most bytes first */
    int n;
    double n_least_bytes; /* op_work of all passes of the operators */
} step_bytes_t;

/* A step on one GPU: images to network input, forward, backward, the optimizer with its default options.
 * ERR_USAGE if the device's launches cannot be counted, or if no operator has the algorithm. */
err_t step_bytes_count(const graph_t *graph, const step_bytes_options_t *options, step_bytes_t *out);

#endif
