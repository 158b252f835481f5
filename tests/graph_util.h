/* SPDX-License-Identifier: MIT */
/* A graph on a backend with buffers for its parameters, gradients and inputs, for tests. Pointers are the host
 * side (tests/op_util.h). */
#ifndef TESTS_GRAPH_UTIL_H
#define TESTS_GRAPH_UTIL_H

#include "compute/graph/exec.h"
#include "tests/op_util.h"

enum { GRAPH_UTIL_GUARD = 64 }; /* floats after the gradients that nothing may write */

typedef struct graph_run {
    const backend_t *backend;
    graph_t *graph; /* owned */
    exec_t *exec;
    float *params, *grads, *states;
    void *input[GRAPH_MAX_INPUTS]; /* of `n` samples, or of whole blocks for all rows */
    int64_t n;
} graph_run_t;

static inline int64_t graph_util_count(const graph_run_t *r, int input)
{
    const graph_value_t *value = &r->graph->values[r->graph->inputs[input].value];
    const graph_section_t *section = &r->graph->sections[value->section];
    int64_t rows = value->section == 0
                       ? r->n
                       : (section->max_rows + section->block - 1) / section->block * section->block;
    return rows * shape_count(value->shape);
}

/* Initial parameters by seed 3; inputs standard normal, integers 0. The caller prepares plans, then calls
 * exec_ready. */
static inline void graph_run_open(graph_run_t *r, const backend_t *backend, graph_t *graph, int64_t n)
{
    *r = (graph_run_t){.backend = backend, .graph = graph, .n = n};
    must(graph_finish(graph), "graph_finish");
    r->params = util_block(backend, (size_t)graph->n_flat_params * sizeof(float));
    r->grads = util_block(backend, (size_t)(graph->n_flat_trained + GRAPH_UTIL_GUARD) * sizeof(float));
    r->states = util_block(backend, (size_t)graph->n_flat_states * sizeof(float));
    graph_init(graph, 3, r->params, r->states);
    rng_t rng = rng_new(4, RNG_TEST, 0);
    for (int i = 0; i < graph->n_inputs; i++) {
        dtype_t dtype = graph->values[graph->inputs[i].value].dtype;
        r->input[i] = util_block(backend, (size_t)graph_util_count(r, i) * dtype_size(dtype));
        float *values = r->input[i];
        for (int64_t k = 0; dtype == DTYPE_F32 && k < graph_util_count(r, i); k++)
            values[k] = (float)rng_normal(&rng);
    }
    exec_options_t options = {.graph = graph,
                              .backend = backend,
                              .params = util_device(r->params),
                              .grads = util_device(r->grads),
                              .states = util_device(r->states),
                              .seed = 3};
    must(exec_new(&options, &r->exec), "exec_new");
}

static inline void graph_run_close(graph_run_t *r)
{
    exec_free(&r->exec);
    for (int i = 0; i < r->graph->n_inputs; i++) util_free(&r->input[i]);
    util_free(&r->params), util_free(&r->grads), util_free(&r->states);
    graph_free(&r->graph);
}

static inline exec_batch_t graph_run_batch(const graph_run_t *r, int64_t n)
{
    exec_batch_t batch = {.n = n, .loss_scale = 1, .step = 11};
    for (int i = 0; i < r->graph->n_inputs; i++) batch.input[i] = util_device(r->input[i]);
    return batch;
}

/* An output of the last forward, in host memory; NULL if it was left out. */
static inline const void *graph_run_output(const graph_run_t *r, const char *name)
{
    exec_results_t results;
    int output = graph_find_output(r->graph, name);
    ASSERT(output >= 0);
    must(exec_results(r->exec, &results), "results");
    return results.output[output];
}

/* The offset of a parameter in the flat buffer. */
static inline int64_t graph_run_param(const graph_run_t *r, const char *name)
{
    for (int i = 0; i < r->graph->n_params; i++)
        if (strcmp(r->graph->params[i].name, name) == 0) return r->graph->params[i].offset;
    ASSERT(!"a parameter of the graph");
    return -1;
}

/* What exec_backward's hook reports: {0, 0, true} before. Ranges follow each other if `ascending`. */
typedef struct graph_hook_log {
    int64_t next;
    int n;
    bool ascending;
} graph_hook_log_t;

static inline err_t graph_hook_log(void *context, int64_t offset, int64_t count)
{
    graph_hook_log_t *log = context;
    log->ascending = log->ascending && offset == log->next && count > 0;
    log->next = offset + count;
    log->n++;
    return ERR_OK;
}

#endif
