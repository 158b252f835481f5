/* SPDX-License-Identifier: MIT */
/* Runs a graph on a backend: plans operators and memory for the batches to come, then runs forward and
 * backward without allocating. Not collective.
 *
 * A step: exec_forward; exec_rows for each section of rows, in order; exec_backward.
 *
 * Parameters, gradients and states are flat buffers owned by the caller (layout: graph.h); the executor owns
 * activations. All buffers, including those of a batch, are memory of the backend: the device side of a
 * host/device buffer (compute/ops/hd_buffer.h). On a GPU forward and backward return without waiting. An
 * executor runs one batch at a time. */
#ifndef COMPUTE_GRAPH_EXEC_H
#define COMPUTE_GRAPH_EXEC_H

#include "compute/graph/algorithms.h"
#include "compute/graph/graph.h"
#include "compute/ops/backend.h"

typedef struct exec exec_t;

enum { EXEC_WHERE_MAX = GRAPH_FUSED_NAME_MAX + 32 };

typedef struct exec_options {
    const graph_t *graph;           /* borrowed; layers are fused as far as the backend can */
    const backend_t *backend;       /* opened by the caller */
    float *params;                  /* n_flat_params */
    float *grads;                   /* n_flat_trained; NULL: no training */
    float *states;                  /* n_flat_states */
    uint64_t seed;                  /* dropout */
    const algorithms_t *algorithms; /* borrowed; NULL: the backend's defaults */
    /* As in op_args_t, for batch norm in training; NULL: statistics are per batch. */
    err_t (*sum_shared)(void *context, double *values, int64_t n);
    void *share_context;
} exec_options_t;

typedef struct exec_batch {
    int64_t n; /* samples; in exec_rows: rows */
    /* In the graph's order, [n, …] of the input's shape and type. NULL: layers that depend on it are left out,
     * in evaluation only. */
    const void *input[GRAPH_MAX_INPUTS];
    const shape_t *shapes; /* of a sample of each input, as for exec_prepare_shapes; NULL: the graph's */
    /* Two numbers per loss, in the order of the layers: forward adds Σ losses, and the number of predictions
     * that equal their label. Or NULL. */
    float *tally;
    float *states; /* n_flat_states; NULL: the executor's */
    uint64_t step, first_sample;
    float loss_scale; /* usually 1 / samples in the global batch */
} exec_batch_t;

err_t exec_new(const exec_options_t *options, exec_t **out);
void exec_free(exec_t **exec);

/* Prepares for batches of n samples; may be repeated.
 *
 *   training  forward in training mode, and backward; otherwise forward in evaluation mode */
err_t exec_prepare(exec_t *exec, int64_t n, bool training);

/* As exec_prepare, for inputs of other shapes. Sections of rows keep their block.
 *
 *   shapes  [n_inputs] of one sample, first dimension 1
 *
 * ERR_USAGE if a layer does not take these shapes. */
err_t exec_prepare_shapes(exec_t *exec, int64_t n, const shape_t *shapes, bool training);

/* Algorithms of layer `node` for a prepared batch size with the graph's shapes; NULL if it is not
 * prepared. */
const op_algorithms_t *exec_algorithms(const exec_t *exec, int64_t n, bool training, int node);

/* Allocates the arena and touches its pages. Call it after the last exec_prepare. */
err_t exec_ready(exec_t *exec);

/* Bytes of the arena, and the least that any plan would need. */
size_t exec_arena_bytes(const exec_t *exec);
size_t exec_floor_bytes(const exec_t *exec);

/* Forward of one batch of a prepared size. */
err_t exec_forward(exec_t *exec, const exec_batch_t *batch, bool training);

/* Runs a section of rows on batch->n rows, block by block. In training, each block runs backward as well;
 * gradients add up. The last exec_forward was of the same step and mode.
 *
 *   batch  the inputs of the section, of whole blocks: what follows the last row in its block is computed, but
 *          counts for nothing; it must be finite */
err_t exec_rows(exec_t *exec, int section, const exec_batch_t *batch);

/* Outputs of the graph, in its order, in host memory; NULL for those that were left out. */
typedef struct exec_results {
    const void *output[GRAPH_MAX_OUTPUTS];
} exec_results_t;

/* Results of the last exec_forward and the exec_rows after it, valid until the next call. Waits for the
 * backend. */
err_t exec_results(exec_t *exec, exec_results_t *out);

/* Called as soon as the gradients [offset, offset + count) of the flat buffer are final. Ranges come in
 * ascending order without gaps. */
typedef err_t (*exec_ready_hook_t)(void *context, int64_t offset, int64_t count);

/* Backward of the batch whose training forward ran last. Overwrites the gradients, except that exec_rows has
 * begun those of its section. hook may be NULL. */
err_t exec_backward(exec_t *exec, const exec_batch_t *batch, exec_ready_hook_t hook, void *context);

/* The fused graph; owned by the executor. */
const graph_t *exec_graph(const exec_t *exec);

/* Cost of a layer since the last exec_clear_costs: seconds of its training passes, and multiply-adds of the operator's
 * formula in the passes that really ran (the first layer computes no gradient of its input, a frozen one none of its
 * parameters); how often each pass ran, and the least that it had to do (op_work); the algorithms of the first batch,
 * NULL before it; seconds of evaluation. The backward passes are not timed apart. */
typedef struct exec_pass {
    double n_calls;
    op_work_t work;
} exec_pass_t;
typedef struct exec_cost {
    double forward_sec, backward_sec;
    double forward_macs, backward_macs;
    exec_pass_t pass[OP_PASS_COUNT];
    const op_algorithms_t *algorithms; /* owned by the executor */
    double evaluation_sec;
} exec_cost_t;

/* One per node of exec_graph; owned by the executor. */
const exec_cost_t *exec_costs(const exec_t *exec);
void exec_clear_costs(exec_t *exec);

/* Whether to time layers on a GPU, by waiting for each one. Initially off. On the host layers are always
 * timed. */
void exec_time_layers(exec_t *exec, bool on);

typedef struct exec_nonfinite {
    char where[EXEC_WHERE_MAX]; /* what was found and where; "" if everything is finite */
    int64_t sample;             /* of the batch, or row: the first in that layer; of a parameter 0 */
} exec_nonfinite_t;

/* Runs forward of section 0 again and finds the first layer with a NaN or infinite output or parameter. */
err_t exec_find_nonfinite(exec_t *exec, const exec_batch_t *batch, exec_nonfinite_t *out);
/* The same of a section of rows, after it; `out` found nothing yet. */
err_t exec_find_nonfinite_rows(exec_t *exec, int section, const exec_batch_t *batch, exec_nonfinite_t *out);

#endif
