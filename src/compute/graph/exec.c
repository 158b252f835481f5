/* SPDX-License-Identifier: MIT */
/* Runs planned layers forward and backward, times them, and copies results to the host. plan.c places the
 * buffers, fuse.c fuses the layers. */
#include "compute/graph/exec.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/rng.h"
#include "base/trace.h"
#include "compute/graph/fuse.h"
#include "compute/graph/plan.h"
#include "compute/ops/hd_buffer.h"
#include "compute/tensor/bf16.h"

enum { MAX_PLANS = 32 };

struct exec {
    exec_options_t options;
    graph_t *graph; /* the caller's graph, fused */
    plan_t *plans[MAX_PLANS];
    int n_plans;
    char *arena;
    size_t n_arena_bytes, n_floor_bytes;
    uint64_t dropout_key;
    exec_batch_t last; /* of the last exec_forward */
    bool last_training;
    exec_cost_t *costs;  /* [n_nodes] */
    bool timed;          /* layers are timed */
    int64_t max_samples; /* largest batch */
    char *results;       /* host copy of the results; NULL if the backend computes in host memory */
};

err_t exec_new(const exec_options_t *options, exec_t **out)
{
    exec_t *exec;
    TRY(mem_new(sizeof *exec, "an executor", &exec));
    exec->options = *options;
    exec->dropout_key = rng_key(options->seed, RNG_DROPOUT);
    exec->timed = !options->backend->memory;
    err_t err = graph_fuse(options->graph, options->backend, &exec->graph);
    if (err == ERR_OK)
        err = mem_new_array(exec->graph->n_nodes, sizeof *exec->costs, "layer times", &exec->costs);
    if (err == ERR_OK)
        *out = exec;
    else
        exec_free(&exec);
    return err;
}

void exec_free(exec_t **exec)
{
    if (!*exec) return;
    const backend_t *backend = (*exec)->options.backend;
    for (int i = 0; i < (*exec)->n_plans; i++) plan_free(&(*exec)->plans[i]);
    graph_free(&(*exec)->graph);
    backend_release(backend, &(*exec)->arena);
    if ((*exec)->results) backend->memory->release_host((*exec)->results);
    mem_free(&(*exec)->costs);
    mem_free(exec);
}

static plan_t *find_plan(const exec_t *exec, int64_t n, bool training)
{
    for (int i = 0; i < exec->n_plans; i++)
        if (exec->plans[i]->n_samples == n && exec->plans[i]->training == training) return exec->plans[i];
    return NULL;
}

err_t exec_prepare(exec_t *exec, int64_t n, bool training)
{
    if (n == 0 || find_plan(exec, n, training)) return ERR_OK;
    ASSERT(exec->n_plans < MAX_PLANS && !exec->arena);
    plan_t *plan;
    TRY(plan_new(exec->graph, exec->options.backend, exec->options.algorithms, n, training, &plan));
    exec->plans[exec->n_plans++] = plan;
    if (n > exec->max_samples) exec->max_samples = n;
    if (plan->n_arena_bytes > exec->n_arena_bytes) exec->n_arena_bytes = plan->n_arena_bytes;
    if (plan->n_floor_bytes > exec->n_floor_bytes) exec->n_floor_bytes = plan->n_floor_bytes;
    return ERR_OK;
}

const op_algorithms_t *exec_algorithms(const exec_t *exec, int64_t n, bool training, int node)
{
    const plan_t *plan = find_plan(exec, n, training);
    return plan ? &plan->nodes[node].op->algorithms : NULL;
}

err_t exec_ready(exec_t *exec)
{
    const backend_t *backend = exec->options.backend;
    size_t n_results = (size_t)exec->max_samples * (size_t)(2 + exec->graph->n_classes) * sizeof(float);
    void *block = NULL;
    if (backend->memory) {
        TRY(backend->memory->alloc_host(n_results, "results", &block));
        exec->results = block;
    }
    return backend_alloc(backend, exec->n_arena_bytes, "activations (a smaller batch needs less)",
                         &exec->arena);
}

size_t exec_arena_bytes(const exec_t *exec)
{
    return exec->n_arena_bytes;
}

size_t exec_floor_bytes(const exec_t *exec)
{
    return exec->n_floor_bytes;
}

static void *buffer_at(const exec_t *exec, const plan_t *plan, int buffer)
{
    return exec->arena + plan->buffers[buffer].offset;
}

/* The data of a value that a layer reads. */
static void *value_at(const exec_t *exec, const plan_t *plan, int value, dtype_t dtype,
                      const exec_batch_t *batch)
{
    if (value == 0) return (void *)batch->pixels;
    if (value == GRAPH_TRUTH) return dtype == DTYPE_I32 ? (void *)batch->labels : (void *)batch->targets;
    return buffer_at(exec, plan, plan->nodes[value - 1].y);
}

/* Arguments common to forward and backward of a layer. */
static op_args_t layer_args(exec_t *exec, const plan_t *plan, int node, const exec_batch_t *batch)
{
    const graph_t *g = exec->graph;
    const graph_node_t *layer = &g->nodes[node];
    const plan_node_t *planned = &plan->nodes[node];
    float *states = batch->states ? batch->states : exec->options.states;
    op_args_t args = op_args(planned->op);
    args.saved = planned->saved >= 0 ? buffer_at(exec, plan, planned->saved) : NULL;
    args.workspace = buffer_at(exec, plan, plan->workspace);
    args.dropout =
        (dropout_call_t){exec->dropout_key, (uint32_t)layer->layer, batch->step, batch->first_sample};
    args.batch_norm = (batch_norm_call_t){exec->options.sum_shared, exec->options.share_context};
    args.loss.scale = batch->loss_scale;
    args.y[0].data = buffer_at(exec, plan, planned->y);
    for (int i = 0; i < layer->desc.n_inputs; i++)
        args.x[i].data = value_at(exec, plan, layer->input[i], args.x[i].dtype, batch);
    for (int i = 0; i < layer->desc.n_params; i++)
        args.param[i].data = exec->options.params + g->params[layer->first_param + i].offset;
    for (int i = 0; i < layer->desc.n_states; i++)
        args.state[i].data = states + g->states[layer->first_state + i].offset;
    return args;
}

static bool all_finite_here(const void *values, int64_t n, dtype_t dtype)
{
    const float *wide = values;
    const uint16_t *narrow = values;
    for (int64_t i = 0; i < n; i++)
        if (!isfinite(dtype == DTYPE_BF16 ? bf16_to_float(narrow[i]) : wide[i])) return false;
    return true;
}

/* Used only after a run has failed: it allocates. Devices store float32 only. */
static err_t all_finite(const exec_t *exec, const void *values, int64_t n, dtype_t dtype, bool *out)
{
    enum { PIECE = 1 << 18 };
    const backend_memory_t *memory = exec->options.backend->memory;
    float *here = NULL;
    *out = true;
    if (!memory) {
        *out = all_finite_here(values, n, dtype);
        return ERR_OK;
    }
    TRY(mem_new_array(PIECE, sizeof *here, "looking for NaN", &here));
    err_t err = ERR_OK;
    for (int64_t i = 0; i < n && *out && err == ERR_OK; i += PIECE) {
        int64_t count = n - i < PIECE ? n - i : PIECE;
        err = memory->download(here, (const float *)values + i, (size_t)count * sizeof *here);
        if (err == ERR_OK) err = memory->sync();
        if (err == ERR_OK) *out = all_finite_here(here, count, DTYPE_F32);
    }
    mem_free(&here);
    return err;
}

static err_t check_layer(const exec_t *exec, int node, const op_args_t *args, char *out)
{
    const graph_t *g = exec->graph;
    const graph_node_t *layer = &g->nodes[node];
    bool finite;
    for (int i = 0; i < layer->desc.n_params; i++) {
        const graph_param_t *p = &g->params[layer->first_param + i];
        TRY(all_finite(exec, args->param[i].data, shape_count(p->shape), DTYPE_F32, &finite));
        if (!finite) {
            snprintf(out, EXEC_WHERE_MAX, "the parameter %s", p->name);
            return ERR_OK;
        }
    }
    const tensor_t *y = &args->y[0];
    TRY(all_finite(exec, y->data, shape_count(y->shape), y->dtype, &finite));
    if (!finite) snprintf(out, EXEC_WHERE_MAX, "the output of layer %s", layer->name);
    return ERR_OK;
}

/* Seconds since `start`, the time of a layer's pass; also added to the trace. */
static double pass_sec(const exec_t *exec, int node, const exec_batch_t *batch, double start)
{
    const graph_node_t *layer = &exec->graph->nodes[node];
    double end = clock_sec();
    trace_add(TRACE_TRAINING, &(trace_span_t){layer->name, op_traits(layer->desc.kind)->name, start, end,
                                              (int64_t)batch->step, 0});
    return end - start;
}

static err_t count_forward(exec_t *exec, const plan_t *plan, int node, const exec_batch_t *batch,
                           double start)
{
    exec_cost_t *cost = &exec->costs[node];
    if (!exec->timed) return ERR_OK;
    TRY(backend_sync(exec->options.backend));
    cost->forward_sec += pass_sec(exec, node, batch, start);
    cost->forward_macs += (double)op_macs(&plan->nodes[node].op->desc);
    return ERR_OK;
}

/* The gradient of the input and that of the weights each take as many products as forward. */
static err_t count_backward(exec_t *exec, const plan_t *plan, int node, const exec_batch_t *batch,
                            double start)
{
    const plan_node_t *planned = &plan->nodes[node];
    exec_cost_t *cost = &exec->costs[node];
    if (!exec->timed) return ERR_OK;
    TRY(backend_sync(exec->options.backend));
    cost->backward_sec += pass_sec(exec, node, batch, start);
    int n_products = (planned->op->desc.n_params > 0) + (planned->dx[0] >= 0);
    cost->backward_macs += n_products * (double)op_macs(&planned->op->desc);
    return ERR_OK;
}

const graph_t *exec_graph(const exec_t *exec)
{
    return exec->graph;
}

void exec_time_layers(exec_t *exec, bool on)
{
    if (exec->options.backend->memory) exec->timed = on;
}

const exec_cost_t *exec_costs(const exec_t *exec)
{
    return exec->costs;
}

void exec_clear_costs(exec_t *exec)
{
    memset(exec->costs, 0, (size_t)exec->graph->n_nodes * sizeof *exec->costs);
}

static err_t run_forward(exec_t *exec, const exec_batch_t *batch, bool training, char *nonfinite)
{
    const graph_t *g = exec->graph;
    plan_t *plan = find_plan(exec, batch->n, training);
    ASSERT(plan && exec->arena);
    for (int n = 0; n < g->n_nodes; n++) {
        op_args_t args = layer_args(exec, plan, n, batch);
        args.training = training;
        if (g->nodes[n].desc.n_outputs > 1) args.y[1].data = batch->predictions;
        /* The rank that searches for NaN may be the only one: no collective calls. */
        if (nonfinite) args.batch_norm.sum_shared = NULL;
        double start = clock_sec();
        err_t err = op_forward(plan->nodes[n].op, &args);
        if (err != ERR_OK) return err_context(err, "layer %s, forward", g->nodes[n].name);
        if (training && !nonfinite) TRY(count_forward(exec, plan, n, batch, start));
        if (nonfinite && !nonfinite[0]) TRY(check_layer(exec, n, &args, nonfinite));
    }
    return ERR_OK;
}

static const float *losses_of(const exec_t *exec, const plan_t *plan)
{
    return buffer_at(exec, plan, plan->nodes[exec->graph->n_nodes - 1].y);
}

/* Updates batch->tally, on the host if the backend has no tally function. */
static err_t update_tally(const exec_t *exec, const plan_t *plan, const exec_batch_t *batch)
{
    const backend_t *backend = exec->options.backend;
    const float *losses = losses_of(exec, plan);
    const int32_t *predictions = graph_multi_label(exec->graph) ? NULL : batch->predictions;
    if (backend->tally) return backend->tally(losses, predictions, batch->labels, batch->n, batch->tally);
    double sum = 0;
    for (int64_t i = 0; i < batch->n; i++) {
        sum += losses[i];
        batch->tally[1] += predictions && predictions[i] == batch->labels[i] ? 1.0f : 0.0f;
    }
    batch->tally[0] += (float)sum;
    return ERR_OK;
}

err_t exec_forward(exec_t *exec, const exec_batch_t *batch, bool training)
{
    exec->last = *batch;
    exec->last_training = training;
    if (batch->n == 0) return ERR_OK;
    TRY(run_forward(exec, batch, training, NULL));
    return batch->tally ? update_tally(exec, find_plan(exec, batch->n, training), batch) : ERR_OK;
}

err_t exec_results(exec_t *exec, exec_results_t *out)
{
    const exec_batch_t *batch = &exec->last;
    const backend_memory_t *memory = exec->options.backend->memory;
    *out = (exec_results_t){0};
    if (batch->n == 0) return ERR_OK;
    const plan_t *plan = find_plan(exec, batch->n, exec->last_training);
    int last = exec->graph->n_nodes - 1;
    const int32_t *found = graph_multi_label(exec->graph) ? NULL : batch->predictions;
    *out = (exec_results_t){losses_of(exec, plan), layer_args(exec, plan, last, batch).x[0].data, found};
    if (!memory) return ERR_OK;
    int64_t n = batch->n, n_logits = n * exec->graph->n_classes;
    float *losses = (float *)(void *)exec->results, *logits = losses + n;
    int32_t *predictions = (int32_t *)(void *)(logits + n_logits);
    TRY(memory->download(losses, out->losses, (size_t)n * sizeof *losses));
    TRY(memory->download(logits, out->logits, (size_t)n_logits * sizeof *logits));
    if (found) TRY(memory->download(predictions, found, (size_t)n * sizeof *predictions));
    *out = (exec_results_t){losses, logits, found ? predictions : NULL};
    return memory->sync();
}

static err_t layer_backward(exec_t *exec, const plan_t *plan, int n, const exec_batch_t *batch)
{
    const graph_t *g = exec->graph;
    const graph_node_t *layer = &g->nodes[n];
    const plan_node_t *planned = &plan->nodes[n];
    op_args_t args = layer_args(exec, plan, n, batch);
    args.training = true;
    if (planned->dy >= 0) args.dy[0].data = buffer_at(exec, plan, planned->dy);
    if (planned->addend >= 0) args.addend = buffer_at(exec, plan, planned->addend);
    for (int i = 0; i < layer->desc.n_inputs; i++) {
        if (planned->dx[i] >= 0) args.dx[i].data = buffer_at(exec, plan, planned->dx[i]);
        args.accumulate_dx[i] = planned->accumulate[i];
    }
    for (int i = 0; i < layer->desc.n_params; i++)
        args.dparam[i].data = exec->options.grads + g->params[layer->first_param + i].offset;
    err_t err = op_backward(planned->op, &args);
    return err == ERR_OK ? ERR_OK : err_context(err, "layer %s, backward", layer->name);
}

/* End of a layer's parameters in the flat buffer, padding included: the start of those of the layer before
 * it. */
static int64_t flat_end(const graph_t *g, int n)
{
    for (int i = n - 1; i >= 0; i--)
        if (g->nodes[i].desc.n_params > 0) return g->params[g->nodes[i].first_param].offset;
    return g->n_flat_params;
}

err_t exec_backward(exec_t *exec, const exec_batch_t *batch, exec_ready_hook_t hook, void *context)
{
    const graph_t *g = exec->graph;
    const plan_t *plan = batch->n > 0 ? find_plan(exec, batch->n, true) : NULL;
    ASSERT(exec->options.grads && (plan || batch->n == 0));
    if (!plan)
        TRY(backend_zero(exec->options.backend, exec->options.grads,
                         (size_t)g->n_flat_params * sizeof(float)));
    for (int n = g->n_nodes - 1; n >= 0; n--) {
        double start = clock_sec();
        if (plan && plan->nodes[n].in_backward) {
            TRY(layer_backward(exec, plan, n, batch));
            TRY(count_backward(exec, plan, n, batch, start));
        }
        if (!hook || g->nodes[n].desc.n_params == 0) continue;
        int64_t offset = g->params[g->nodes[n].first_param].offset;
        TRY(hook(context, offset, flat_end(g, n) - offset));
    }
    return ERR_OK;
}

err_t exec_find_nonfinite(exec_t *exec, const exec_batch_t *batch, char *out)
{
    out[0] = '\0';
    if (batch->n == 0) return ERR_OK;
    return run_forward(exec, batch, true, out);
}
