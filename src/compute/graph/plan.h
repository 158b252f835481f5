/* SPDX-License-Identifier: MIT */
/* The plan for one set of input shapes: operators bound to a backend, and the place of every buffer in the
 * arena. Private to exec. */
#ifndef COMPUTE_GRAPH_PLAN_H
#define COMPUTE_GRAPH_PLAN_H

#include "compute/graph/algorithms.h"
#include "compute/graph/memplan.h"
#include "compute/graph/needs.h"

typedef struct plan_node {
    op_t *op;
    int saved, addend; /* as plan_t.value */
    bool accumulate_dx[OP_MAX_INPUTS], accumulate_dparam[OP_MAX_PARAMS];
} plan_node_t;

/* What a plan is for.
 *
 *   inputs  [n_inputs] shapes of one sample, as for graph_infer; NULL: those of the graph */
typedef struct plan_key {
    int64_t n_samples;
    bool training;
    const shape_t *inputs;
} plan_key_t;

/* A value in a section of rows is planned for a block, except for outputs of the graph, which are kept for
 * all rows. The gradient of a value of section 0 that a section of rows reads starts from zero, and every
 * layer adds to it (plan_starts_zero); so do gradients of parameters in sections of rows. */
typedef struct plan {
    const graph_t *graph;
    plan_key_t key;
    shape_t inputs[GRAPH_MAX_INPUTS]; /* key.inputs points here, if not NULL */
    graph_needs_t *needs;             /* [n_nodes] without training all false */
    plan_node_t *nodes;
    int *value, *gradient; /* [n_values]: indices into buffers, -1: none */
    memplan_buffer_t *buffers;
    int n_buffers;
    size_t n_workspace_bytes; /* at the start of the arena, shared by all operators */
    size_t n_arena_bytes, n_floor_bytes;
} plan_t;

/* algorithms  may be NULL; not kept */
err_t plan_new(const graph_t *graph, const backend_t *backend, const algorithms_t *algorithms,
               const plan_key_t *key, plan_t **out);
void plan_free(plan_t **plan);

/* Whether a plan is for this. */
bool plan_serves(const plan_t *plan, const plan_key_t *key);

/* The layers of a section are [first, end). */
void plan_section(const graph_t *graph, int section, int *first, int *end);

/* Whether the gradient of a value starts from zero. */
bool plan_starts_zero(const plan_t *plan, int value);

/* Whether a value of a section of rows is kept for all rows, not for a block. */
bool plan_keeps_rows(const plan_t *plan, int value);

/* Bytes of a layer's output in memory, and of one of its rows in a section of rows, also of an input's. */
size_t plan_value_bytes(const plan_t *plan, int value);
size_t plan_row_bytes(const plan_t *plan, int value);

#endif
