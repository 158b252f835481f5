/* SPDX-License-Identifier: MIT */
/* How a backend runs a graph: layers fused for it, and for one set of input shapes a plan, which binds operators to the
 * backend and places every buffer in the arena. */
#ifndef COMPUTE_GRAPH_PLAN_H
#define COMPUTE_GRAPH_PLAN_H

#include "compute/graph/algorithms.h"

/* Fuses a graph for a backend: returns one that computes the same with fewer nodes. A value is fused away only if a single
 * layer reads it:
 *
 *   ReLU into the conv2d, linear or batch norm before it
 *   max pooling over adjacent windows into the conv2d before its ReLU
 *   an addition into the batch norm that computes the later of its inputs; the other becomes a second input
 *
 * A fused node replaces its first layer, so that gradients of parameters become final in the same order. Its
 * name is such as "layer1.0.bn2+add+relu2": later names drop the prefix they share. Parameters, states and
 * their flat buffers stay those of `graph`. If products are bfloat16 and the backend stores bfloat16, values
 * between layers and their gradients are stored as bfloat16, except the input of the graph and of the loss.
 * Free with graph_free. */
err_t graph_fuse(const graph_t *graph, const backend_t *backend, graph_t **out);

/* Memory plan: places buffers of known lifetimes into one arena, so that buffers that are never alive
 * together share memory. Greedy by size, lowest free offset first: TensorFlow Lite's "greedy by size"
 * (Pisarchyk & Lee 2020), found to be within a few percent of the lower bound on networks. */
typedef struct memplan_buffer {
    size_t n_bytes;
    int first, last; /* alive in steps first … last, inclusive */
    size_t offset;   /* output; a multiple of MEM_ALIGN */
} memplan_buffer_t;

/* Assigns offsets; *n_bytes is the size of the arena. */
err_t memplan_solve(memplan_buffer_t *buffers, int n, size_t *n_bytes);

/* The most bytes alive in any one step, a lower bound for every plan. */
size_t memplan_floor(const memplan_buffer_t *buffers, int n);

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
