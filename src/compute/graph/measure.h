/* SPDX-License-Identifier: MIT */
/* Measurements on buffers of their own: a single operator, the fastest algorithms of each layer, a training step. Not
 * collective. */
#ifndef COMPUTE_GRAPH_MEASURE_H
#define COMPUTE_GRAPH_MEASURE_H

#include "compute/graph/algorithms.h"
#include "compute/ops/hd_buffer.h"

enum { SCRATCH_BLOCKS = 4 + 2 * OP_MAX_PARAMS };

/* Buffers for an inferred description with one input, for any of its algorithms. The pointers are the host
 * side. dy, dx and dparam are NULL without training, and so are pointers to tensors stored as bfloat16 and, on a
 * device, all pointers after scratch_new_device. */
typedef struct scratch {
    float *x, *y, *dy, *dx, *param[OP_MAX_PARAMS], *dparam[OP_MAX_PARAMS];
    hd_buffer_t blocks[SCRATCH_BLOCKS]; /* all of the above, in this order */
} scratch_t;

/* Bytes that scratch_new allocates. */
int64_t scratch_bytes(const op_desc_t *desc, bool training);

/* Fills all buffers with values typical of training: normally distributed, periodic, the same in every call.
 * On an error nothing is left allocated.
 *
 *   what  for the message when memory runs out */
err_t scratch_new(const op_desc_t *desc, const backend_t *backend, bool training, const char *what,
                  scratch_t *out);
/* The same values without a host side on a device: pinned memory for the largest layers can be more than there is. */
err_t scratch_new_device(const op_desc_t *desc, const backend_t *backend, bool training, const char *what,
                         scratch_t *out);
void scratch_free(scratch_t *scratch);

/* Copies all buffers to the device, and back, which waits. scratch_new has pushed once. */
err_t scratch_push(const scratch_t *scratch);
err_t scratch_pull(const scratch_t *scratch);

/* Runs one pass without waiting for it. Of the gradients only the one of that pass is computed; the operator
 * must support that (op_args_t.dparam).
 *
 *   saved, workspace  from backend_alloc, of the operator's sizes */
err_t scratch_run(const scratch_t *scratch, const op_t *op, op_pass_t pass, void *saved, void *workspace);
/* The least work of such a run. */
op_work_t scratch_work(const scratch_t *scratch, const op_t *op, op_pass_t pass);

/* Before a layer is measured. Layers with the same operator count once. */
typedef struct measure_progress {
    const char *layer;
    int n_done, n_layers;
    double left_sec; /* estimate */
} measure_progress_t;

typedef struct measure_options {
    const graph_t *graph;
    const backend_t *backend; /* open, in this thread */
    const batch_size_t *sizes;
    int n_sizes;
    algorithms_t *cache; /* earlier measurements; new ones are added. NULL: none */
    bool near;           /* accept those of near batch sizes (algorithms_find_near) */
    const algorithms_t
        *rule; /* for layers that were not measured in time. NULL, and what it lacks: the default */
    /* Time limit; the remaining layers get the rule's choice or the backend's default, which the cache does not keep.
     * A run starts only if the remaining time covers the longest run so far. Negative: measure nothing. */
    double limit_sec;
    /* Asked before each run: true ends measuring as the time limit does. NULL: never. */
    bool (*stopped)(void);
    void (*progress)(void *context, const measure_progress_t *progress); /* NULL: none */
    void *progress_context;
} measure_options_t;

typedef struct measure_result {
    int n_measured, n_cached; /* choices */
    int n_dropped;            /* entries whose algorithm does not exist or does not fit here */
    int n_left;               /* choices that were not measured in time */
    double sec;
} measure_result_t;

/* Chooses for every layer and pass with several algorithms: the table's entry, else the cache's, else the
 * fastest on scratch buffers, training and the most expensive layers first. The backend's default stays
 * unless another is at least 3 % faster. Gradients that are never computed, such as that of the graph's input, need no
 * choice. */
err_t algorithms_measure(const measure_options_t *options, algorithms_t *table, measure_result_t *result);

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
