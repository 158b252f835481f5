/* SPDX-License-Identifier: MIT */
/* The plan for one batch size: operators bound to a backend, and the place of every buffer in the arena.
 * Private to exec. */
#ifndef COMPUTE_GRAPH_PLAN_H
#define COMPUTE_GRAPH_PLAN_H

#include "compute/graph/algorithms.h"
#include "compute/graph/graph.h"
#include "compute/graph/memplan.h"
#include "compute/ops/backend.h"

/* Buffers are indices into plan->buffers, -1 if there is none. */
typedef struct plan_node {
    op_t *op;
    bool in_backward; /* this layer, or one it depends on, has parameters */
    int y, dy, saved;
    int dx[OP_MAX_INPUTS];          /* gradients of the inputs */
    bool accumulate[OP_MAX_INPUTS]; /* dx is added to */
    int addend;                     /* op_args_t.addend */
} plan_node_t;

typedef struct plan {
    const graph_t *graph;
    int64_t n_samples;
    bool training;
    plan_node_t *nodes;
    memplan_buffer_t *buffers;
    int n_buffers;
    int workspace; /* shared by all operators */
    size_t n_arena_bytes, n_floor_bytes;
} plan_t;

/* algorithms  may be NULL; not kept */
err_t plan_new(const graph_t *graph, const backend_t *backend, const algorithms_t *algorithms,
               int64_t n_samples, bool training, plan_t **out);
void plan_free(plan_t **plan);

#endif
