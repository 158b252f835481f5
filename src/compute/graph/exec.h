/* Runs a graph on a backend: plans operators and memory for the batch sizes that will occur, then forward and
 * backward without allocating. Not collective.
 *
 * Parameters, gradients and states are flat buffers of the caller (graph.h gives the layout); the executor
 * owns activations. All buffers, those of a batch too, are where the backend computes (compute/ops/mirror.h:
 * a mirror's device side). On a GPU forward and backward do not wait. One executor runs one batch at a time.
 */
#ifndef COMPUTE_GRAPH_EXEC_H
#define COMPUTE_GRAPH_EXEC_H

#include "compute/graph/algorithms.h"
#include "compute/graph/graph.h"
#include "compute/ops/backend.h"

typedef struct exec exec_t;

enum { EXEC_WHERE_MAX = 128 };

typedef struct exec_options {
    const graph_t *graph;           /* borrowed; neighbours that the backend computes in one are fused */
    const backend_t *backend;       /* opened by the caller */
    float *params;                  /* n_flat_params */
    float *grads;                   /* n_flat_params; NULL when nothing is trained */
    float *states;                  /* n_flat_states */
    uint64_t seed;                  /* dropout */
    const algorithms_t *algorithms; /* borrowed; NULL: the backend's own rule */
    /* op_args_t's, for batch norm in training; NULL: every batch has its own statistics. */
    err_t (*sum_shared)(void *context, double *values, int64_t n);
    void *share_context;
} exec_options_t;

typedef struct exec_batch {
    int64_t n;
    const float *pixels;   /* [n, h, w, c] */
    const int32_t *labels; /* [n]; of a graph_multi_label not read */
    const float *targets;  /* [n, classes], of a graph_multi_label; elsewhere not read */
    int32_t *predictions;  /* [n]; NULL: not wanted; of a graph_multi_label there are none */
    float *tally;  /* forward adds the sum of the losses and the number of right predictions; or NULL */
    float *states; /* n_flat_states; NULL: the executor's */
    uint64_t step, first_sample;
    float loss_scale; /* of the gradients: 1 / samples in the global batch */
} exec_batch_t;

err_t exec_new(const exec_options_t *options, exec_t **out);
void exec_free(exec_t **exec);

/* Prepares for batches of n samples (repeating is fine). training: forward in training mode and backward. */
err_t exec_prepare(exec_t *exec, int64_t n, bool training);

/* What computes layer `node` for a prepared batch size; NULL when it is not prepared. */
const op_algorithms_t *exec_algorithms(const exec_t *exec, int64_t n, bool training, int node);

/* After the last exec_prepare: makes the arena and touches it. */
err_t exec_ready(exec_t *exec);

/* Bytes of the arena, and the least that any plan would need. */
size_t exec_arena_bytes(const exec_t *exec);
size_t exec_floor_bytes(const exec_t *exec);

/* Forward of one batch of a prepared size. */
err_t exec_forward(exec_t *exec, const exec_batch_t *batch, bool training);

/* What forward found, in host memory. */
typedef struct exec_results {
    const float *losses; /* [n] */
    const float *logits; /* [n, classes], which the losses were computed from; scores to rank samples by */
    const int32_t *predictions; /* [n]; NULL where the batch wants none */
} exec_results_t;

/* Of the last exec_forward, until the next call. Waits for it. */
err_t exec_results(exec_t *exec, exec_results_t *out);

/* Called when the gradients [offset, offset + count) of the flat buffer are final; ranges come in ascending
 * order without gaps. */
typedef err_t (*exec_ready_hook_t)(void *context, int64_t offset, int64_t count);

/* Backward of the batch whose training forward came last. Overwrites the gradients. hook may be NULL. */
err_t exec_backward(exec_t *exec, const exec_batch_t *batch, exec_ready_hook_t hook, void *context);

/* The graph that runs, neighbours fused; the executor's own. */
const graph_t *exec_graph(const exec_t *exec);

/* What a layer's training passes have cost since the last exec_clear_costs: seconds, and products that really
 * ran (the first layer's backward has no gradient of the input). */
typedef struct exec_cost {
    double forward_sec, backward_sec;
    double forward_macs, backward_macs;
} exec_cost_t;

/* One for each node of exec_graph, the executor's own. */
const exec_cost_t *exec_costs(const exec_t *exec);
void exec_clear_costs(exec_t *exec);

/* On a GPU a layer's time is known only by waiting for it: while this is on (it is off at first), every layer
 * is waited for. On the host layers are always timed. */
void exec_time_layers(exec_t *exec, bool on);

/* Runs forward again and finds the first layer with a NaN or infinite output (or parameter). *layer: its name
 * with what is wrong, in out[EXEC_WHERE_MAX]; "" when everything is finite. */
err_t exec_find_nonfinite(exec_t *exec, const exec_batch_t *batch, char *out);

#endif
