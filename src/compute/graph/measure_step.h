/* SPDX-License-Identifier: MIT */
/* The time of a training step, measured on buffers of its own. Not collective. */
#ifndef COMPUTE_GRAPH_MEASURE_STEP_H
#define COMPUTE_GRAPH_MEASURE_STEP_H

#include "compute/graph/graph.h"
#include "compute/ops/backend.h"

/* Multiply-adds of one training step of n samples. */
double measure_step_macs(const graph_t *graph, int64_t n);

typedef struct step_time {
    double sec; /* median of the steps, or their mean beside other processes; INFINITY if time ran out */
    bool calm;  /* no other process disturbed them */
} step_time_t;

/* Times forward and backward with the backend's default algorithms, for about 0.2 s, or 0.6 s beside other
 * processes.
 *
 *   backend    a host backend, open in this thread
 *   limit_sec  time limit of the steps; at least one runs */
err_t measure_step(const graph_t *graph, const backend_t *backend, int64_t n, double limit_sec,
                   step_time_t *out);

#endif
