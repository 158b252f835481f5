/* SPDX-License-Identifier: MIT */
/* The executor's state, shared by exec_*.c. */
#ifndef COMPUTE_GRAPH_EXEC_IMPL_H
#define COMPUTE_GRAPH_EXEC_IMPL_H

#include "compute/graph/exec.h"
#include "compute/graph/plan.h"
#include "compute/ops/hd_buffer.h"

enum { EXEC_MAX_PLANS = 512 };

struct exec {
    exec_options_t options;
    graph_t *graph; /* the caller's graph, fused */
    plan_t *plans[EXEC_MAX_PLANS];
    int n_plans;
    char *arena;
    uint16_t *params_bf16; /* n_flat_params, of the last forward; NULL: layers round for themselves */
    size_t n_arena_bytes, n_floor_bytes;
    uint64_t dropout_key;
    /* The last exec_forward, and the rows of the exec_rows since. */
    const plan_t *plan; /* NULL: of no samples */
    exec_batch_t batch;
    int64_t n_rows[GRAPH_MAX_SECTIONS];
    bool *absent;       /* [n_values]: left out, as an input is missing */
    exec_cost_t *costs; /* [n_nodes] */
    bool timed;         /* layers are timed */
    size_t n_result_bytes;
    char *results; /* host copy of the results; NULL if the backend computes in host memory */
};

/* A pass over the layers of a section. */
typedef struct exec_call {
    const plan_t *plan;
    const exec_batch_t *batch; /* of the section */
    int section;
    int64_t first_row, n_rows; /* in a section of rows: the block */
} exec_call_t;

/* A value in memory; in a section of rows its block. */
void *exec_value(const exec_t *exec, const exec_call_t *call, int value);

/* Adds a loss, just computed, to the batch's tally. */
err_t exec_tally(const exec_t *exec, const exec_call_t *call, int node);

/* Adds the time since `start`, and the work of the call, to a layer's cost. */
err_t exec_count_forward(exec_t *exec, const exec_call_t *call, int node, const op_args_t *args,
                         double start);
err_t exec_count_backward(exec_t *exec, const exec_call_t *call, int node, const op_args_t *args,
                          double start);

/* Looks for NaN in a layer's parameters and outputs; `out` as for exec_find_nonfinite. */
err_t exec_check_layer(const exec_t *exec, const exec_call_t *call, int node, exec_nonfinite_t *out);

/* Forward of a section.
 *
 *   nonfinite  NULL, or `out` of exec_find_nonfinite: nothing is counted, and no other rank is called */
err_t exec_run_forward(exec_t *exec, const exec_call_t *call, exec_nonfinite_t *nonfinite);

#endif
