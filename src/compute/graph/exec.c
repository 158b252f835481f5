/* SPDX-License-Identifier: MIT */
/* Runs planned layers forward and backward, block by block in sections of rows: sums of losses, results copied to the
 * host, what layers cost, and where a NaN comes from. Plans are made in plan.c. */
#include "compute/graph/exec.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/rng.h"
#include "compute/graph/plan.h"
#include "compute/ops/hd_buffer.h"
#include "compute/tensor/float16.h"

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

err_t exec_new(const exec_options_t *options, exec_t **out)
{
    exec_t *exec;
    TRY(mem_new(sizeof *exec, "an executor", &exec));
    exec->options = *options;
    exec->dropout_key = rng_key(options->seed, RNG_DROPOUT);
    exec->timed = !options->backend->memory;
    for (int s = 1; s < options->graph->n_sections; s++)
        ASSERT(!options->backend->memory || options->graph->sections[s].block % 4 == 0);
    err_t err = graph_fuse(options->graph, options->backend, &exec->graph);
    if (err == ERR_OK)
        err = mem_new_array(exec->graph->n_nodes, sizeof *exec->costs, "layer times", &exec->costs);
    if (err == ERR_OK)
        err = mem_new_array(exec->graph->n_values, sizeof *exec->absent, "an executor", &exec->absent);
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
    backend_release(backend, &(*exec)->params_bf16);
    if ((*exec)->results) backend->memory->release_host((*exec)->results);
    mem_free(&(*exec)->costs);
    mem_free(&(*exec)->absent);
    mem_free(exec);
}

static plan_t *find_plan(const exec_t *exec, const plan_key_t *key)
{
    for (int i = 0; i < exec->n_plans; i++)
        if (plan_serves(exec->plans[i], key)) return exec->plans[i];
    return NULL;
}

static size_t max_size(size_t a, size_t b)
{
    return a > b ? a : b;
}

err_t exec_prepare_shapes(exec_t *exec, int64_t n, const shape_t *shapes, bool training)
{
    const graph_t *g = exec->graph;
    const plan_key_t key = {n, training, shapes};
    size_t n_results = 0;
    if (n == 0 || find_plan(exec, &key)) return ERR_OK;
    ASSERT(exec->n_plans < EXEC_MAX_PLANS && !exec->arena);
    plan_t *plan;
    TRY(plan_new(g, exec->options.backend, exec->options.algorithms, &key, &plan));
    exec->plans[exec->n_plans++] = plan;
    for (int i = 0; i < g->n_outputs; i++)
        n_results += mem_round(plan_value_bytes(plan, g->outputs[i].value));
    exec->n_result_bytes = max_size(exec->n_result_bytes, n_results);
    exec->n_arena_bytes = max_size(exec->n_arena_bytes, plan->n_arena_bytes);
    exec->n_floor_bytes = max_size(exec->n_floor_bytes, plan->n_floor_bytes);
    return ERR_OK;
}

err_t exec_prepare(exec_t *exec, int64_t n, bool training)
{
    return exec_prepare_shapes(exec, n, NULL, training);
}

const op_algorithms_t *exec_algorithms(const exec_t *exec, int64_t n, bool training, int node)
{
    const plan_t *plan = find_plan(exec, &(plan_key_t){n, training, NULL});
    return plan ? &plan->nodes[node].op->algorithms : NULL;
}

err_t exec_ready(exec_t *exec)
{
    const backend_t *backend = exec->options.backend;
    void *block = NULL;
    if (backend->memory) {
        TRY(backend->memory->alloc_host(exec->n_result_bytes, "results", &block));
        exec->results = block;
    }
    if (backend->memory && exec->graph->compute == DTYPE_BF16)
        TRY(backend_alloc(backend, (size_t)exec->graph->n_flat_params * sizeof *exec->params_bf16,
                          "rounded weights", &exec->params_bf16));
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

const graph_t *exec_graph(const exec_t *exec)
{
    return exec->graph;
}

static void *buffer_at(const exec_t *exec, const plan_t *plan, int buffer)
{
    return buffer < 0 ? NULL : exec->arena + plan->buffers[buffer].offset;
}

/* A value in memory; in a section of rows its block. */
static void *value_at(const exec_t *exec, const exec_call_t *call, int value)
{
    const graph_t *g = exec->graph;
    const int section = g->values[value].section;
    const exec_batch_t *batch = section == call->section ? call->batch : &exec->batch;
    char *at = buffer_at(exec, call->plan, call->plan->value[value]);
    bool all_rows = at && plan_keeps_rows(call->plan, value);
    for (int i = 0; !at && i < g->n_inputs; i++)
        if (g->inputs[i].value == value) at = (char *)batch->input[i], all_rows = section > 0;
    return at && all_rows ? at + (size_t)call->first_row * plan_row_bytes(call->plan, value) : at;
}

/* Arguments common to forward and backward of a layer. */
static op_args_t layer_args(const exec_t *exec, const exec_call_t *call, int n)
{
    const graph_t *g = exec->graph;
    const graph_node_t *node = &g->nodes[n];
    const plan_node_t *planned = &call->plan->nodes[n];
    const exec_batch_t *batch = call->batch;
    float *states = batch->states ? batch->states : exec->options.states;
    op_args_t args = op_args(planned->op);
    args.saved = buffer_at(exec, call->plan, planned->saved);
    args.workspace = exec->arena;
    args.training = planned->op->training;
    if (call->section > 0) args.n_rows = call->n_rows;
    args.dropout = (dropout_call_t){exec->dropout_key, (uint32_t)node->layer, batch->step,
                                    batch->first_sample + (uint64_t)call->first_row};
    args.batch_norm = (batch_norm_call_t){exec->options.sum_shared, exec->options.share_context};
    args.loss = (loss_call_t){batch->loss_scale, node->weight};
    for (int i = 0; i < node->desc.n_inputs; i++) args.x[i].data = value_at(exec, call, node->input[i]);
    for (int i = 0; i < node->desc.n_outputs; i++) args.y[i].data = value_at(exec, call, node->output[i]);
    for (int i = 0; i < node->desc.n_params; i++)
        args.param[i].data = exec->options.params + g->params[node->first_param + i].offset;
    for (int i = 0; i < node->desc.n_params && exec->params_bf16; i++)
        args.param_bf16[i] = exec->params_bf16 + g->params[node->first_param + i].offset;
    for (int i = 0; i < node->desc.n_states; i++)
        args.state[i].data = states + g->states[node->first_state + i].offset;
    return args;
}

/* Whether a layer is left out, and with it its outputs, as an input is missing. */
static bool is_left_out(exec_t *exec, const exec_call_t *call, int n)
{
    const graph_node_t *node = &exec->graph->nodes[n];
    bool out = false;
    for (int i = 0; i < node->desc.n_inputs; i++)
        out = out || exec->absent[node->input[i]] || !value_at(exec, call, node->input[i]);
    for (int i = 0; i < node->desc.n_outputs; i++) exec->absent[node->output[i]] = out;
    ASSERT(!out || !call->plan->key.training);
    return out;
}

/* Adds a loss, just computed, to the batch's tally: on the host if the backend has no function for it. */
static err_t add_to_tally(const exec_t *exec, const exec_call_t *call, int n)
{
    const backend_t *backend = exec->options.backend;
    const graph_node_t *node = &exec->graph->nodes[n];
    if (!call->batch->tally || !op_traits(node->desc.kind)->loss) return ERR_OK;
    float *tally = call->batch->tally + 2 * graph_count_losses(exec->graph, n);
    const float *losses = value_at(exec, call, node->output[0]);
    const bool predicts = node->desc.n_outputs > 1;
    const int32_t *predictions = predicts ? value_at(exec, call, node->output[1]) : NULL;
    const int32_t *labels = predicts ? value_at(exec, call, node->input[1]) : NULL;
    const int64_t count = call->section == 0 ? call->batch->n : call->n_rows;
    if (backend->tally) return backend->tally(losses, predictions, labels, count, tally);
    double sum = 0;
    for (int64_t i = 0; i < count; i++) {
        sum += losses[i];
        tally[1] += predictions && predictions[i] == labels[i] ? 1.0f : 0.0f;
    }
    tally[0] += (float)sum;
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

static void add_work(exec_cost_t *cost, const op_t *op, const op_args_t *args, op_pass_t pass)
{
    const op_work_t work = op_work(op, args, pass);
    exec_pass_t *sum = &cost->pass[pass];
    if (work.macs <= 0 && work.bytes <= 0) return;
    sum->n_calls++;
    sum->work.macs += work.macs;
    sum->work.bytes += work.bytes;
}

/* Adds the time since `start`, and the work of the call, to a layer's cost. */
static err_t count_forward(exec_t *exec, const exec_call_t *call, int node, const op_args_t *args,
                           double start)
{
    exec_cost_t *cost = &exec->costs[node];
    const op_t *op = call->plan->nodes[node].op;
    if (!exec->timed) return ERR_OK;
    TRY(backend_sync(exec->options.backend));
    if (!call->plan->key.training) {
        cost->evaluation_sec += clock_sec() - start;
        return ERR_OK;
    }
    cost->forward_sec += pass_sec(exec, node, call->batch, start);
    cost->forward_macs += (double)op_macs(&op->desc);
    if (!cost->algorithms) cost->algorithms = &op->algorithms;
    add_work(cost, op, args, OP_FORWARD);
    return ERR_OK;
}

/* The gradient of the input and that of the weights each take as many products as forward. */
static err_t count_backward(exec_t *exec, const exec_call_t *call, int node, const op_args_t *args,
                            double start)
{
    const graph_needs_t *needs = &call->plan->needs[node];
    exec_cost_t *cost = &exec->costs[node];
    const op_t *op = call->plan->nodes[node].op;
    if (!exec->timed) return ERR_OK;
    TRY(backend_sync(exec->options.backend));
    cost->backward_sec += pass_sec(exec, node, call->batch, start);
    cost->backward_macs += (needs->dparam + needs->dx[0]) * (double)op_macs(&op->desc);
    add_work(cost, op, args, OP_BACKWARD_DATA);
    add_work(cost, op, args, OP_BACKWARD_WEIGHTS);
    return ERR_OK;
}

/* The first of n values that is NaN or infinite; -1: none. */
static int64_t nonfinite_here(const void *values, int64_t n, dtype_t dtype)
{
    const float *wide = values;
    const uint16_t *narrow = values;
    for (int64_t i = 0; i < n; i++)
        if (!isfinite(dtype == DTYPE_BF16 ? bf16_to_float(narrow[i]) : wide[i])) return i;
    return -1;
}

/* Used only after a run has failed: it allocates. */
static err_t find_nonfinite(const exec_t *exec, const void *values, int64_t n, dtype_t dtype, int64_t *out)
{
    enum { PIECE = 1 << 18 };
    const size_t size = dtype_size(dtype);
    const backend_memory_t *memory = exec->options.backend->memory;
    void *here = NULL;
    *out = -1;
    if (!memory) {
        *out = nonfinite_here(values, n, dtype);
        return ERR_OK;
    }
    TRY(mem_new_array(PIECE, size, "looking for NaN", &here));
    err_t err = ERR_OK;
    for (int64_t i = 0; i < n && *out < 0 && err == ERR_OK; i += PIECE) {
        int64_t count = n - i < PIECE ? n - i : PIECE;
        err = memory->download(here, (const char *)values + (size_t)i * size, (size_t)count * size);
        if (err == ERR_OK) err = memory->sync();
        if (err == ERR_OK) *out = nonfinite_here(here, count, dtype);
        if (err == ERR_OK && *out >= 0) *out += i;
    }
    mem_free(&here);
    return err;
}

/* Looks for NaN in a layer's parameters and outputs; `out` as for exec_find_nonfinite. */
static err_t check_layer(const exec_t *exec, const exec_call_t *call, int node, exec_nonfinite_t *out)
{
    const graph_t *g = exec->graph;
    const graph_node_t *layer = &g->nodes[node];
    int64_t at;
    for (int i = 0; i < layer->desc.n_params; i++) {
        const graph_param_t *p = &g->params[layer->first_param + i];
        TRY(find_nonfinite(exec, exec->options.params + p->offset, shape_count(p->shape), DTYPE_F32, &at));
        if (at >= 0) {
            snprintf(out->where, EXEC_WHERE_MAX, "the parameter %s", p->name);
            return ERR_OK;
        }
    }
    const op_desc_t *desc = &call->plan->nodes[node].op->desc;
    for (int i = 0; i < desc->n_outputs; i++) {
        if (desc->y_dtype[i] == DTYPE_I32) continue;
        const int64_t n_sample = shape_count(desc->y[i]) / desc->y[i].dim[0];
        /* The rest of a block is not computed. */
        const int64_t n = n_sample * (call->section > 0 ? call->n_rows : desc->y[i].dim[0]);
        TRY(find_nonfinite(exec, value_at(exec, call, layer->output[i]), n, desc->y_dtype[i], &at));
        if (at < 0 || out->where[0]) continue;
        snprintf(out->where, EXEC_WHERE_MAX, "the output of layer %s", layer->name);
        out->sample = call->first_row + at / n_sample;
    }
    return ERR_OK;
}

/* Forward of a section.
 *
 *   nonfinite  NULL, or `out` of exec_find_nonfinite: nothing is counted, and no other rank is called */
static err_t run_forward(exec_t *exec, const exec_call_t *call, exec_nonfinite_t *nonfinite)
{
    const graph_t *g = exec->graph;
    const backend_t *backend = exec->options.backend;
    int first, end;
    /* On a GPU one launch for all weights instead of several per layer. */
    if (call->section == 0 && exec->params_bf16)
        TRY(backend->narrow(exec->options.params, exec->params_bf16, g->n_flat_params,
                            backend->device()->stream));
    plan_section(g, call->section, &first, &end);
    for (int n = first; n < end; n++) {
        if (is_left_out(exec, call, n)) continue;
        op_args_t args = layer_args(exec, call, n);
        /* The rank that searches for NaN may be the only one: no collective calls. */
        if (nonfinite) args.batch_norm.sum_shared = NULL;
        double start = clock_sec();
        err_t err = op_forward(call->plan->nodes[n].op, &args);
        if (err != ERR_OK) return err_context(err, "layer %s, forward", g->nodes[n].name);
        if (!nonfinite) TRY(count_forward(exec, call, n, &args, start));
        if (nonfinite && !nonfinite->where[0]) TRY(check_layer(exec, call, n, nonfinite));
        if (!nonfinite) TRY(add_to_tally(exec, call, n));
    }
    return ERR_OK;
}

/* Gradients to which every block of rows adds begin with zero. */
static err_t clear_gradients(const exec_t *exec, const plan_t *plan)
{
    const backend_t *backend = exec->options.backend;
    const graph_t *g = exec->graph;
    for (int value = 0; value < g->n_values && g->n_sections > 1; value++)
        if (plan_starts_zero(plan, value))
            TRY(backend_zero(backend, buffer_at(exec, plan, plan->gradient[value]),
                             plan_value_bytes(plan, value)));
    for (int n = 0; n < g->n_nodes; n++) {
        int64_t offset, count;
        if (g->nodes[n].section == 0 || !plan->needs[n].dparam) continue;
        graph_flat_range(g, n, &offset, &count);
        TRY(backend_zero(backend, exec->options.grads + offset, (size_t)count * sizeof(float)));
    }
    return ERR_OK;
}

err_t exec_forward(exec_t *exec, const exec_batch_t *batch, bool training)
{
    const plan_key_t key = {batch->n, training, batch->shapes};
    exec->batch = *batch;
    exec->plan = batch->n > 0 ? find_plan(exec, &key) : NULL;
    memset(exec->n_rows, 0, sizeof exec->n_rows);
    if (batch->n == 0) return ERR_OK;
    ASSERT(exec->plan && exec->arena);
    TRY(run_forward(exec, &(exec_call_t){exec->plan, &exec->batch, 0, 0, 0}, NULL));
    return training && exec->options.grads ? clear_gradients(exec, exec->plan) : ERR_OK;
}

static err_t layer_backward(exec_t *exec, const exec_call_t *call, int n)
{
    const graph_t *g = exec->graph;
    const plan_t *plan = call->plan;
    const graph_node_t *node = &g->nodes[n];
    const plan_node_t *planned = &plan->nodes[n];
    double start = clock_sec();
    op_args_t args = layer_args(exec, call, n);
    args.addend = buffer_at(exec, plan, planned->addend);
    for (int i = 0; i < node->desc.n_outputs; i++)
        args.dy[i].data = buffer_at(exec, plan, plan->gradient[node->output[i]]);
    for (int i = 0; i < node->desc.n_inputs; i++) {
        if (plan->needs[n].dx[i]) args.dx[i].data = buffer_at(exec, plan, plan->gradient[node->input[i]]);
        args.accumulate_dx[i] = planned->accumulate_dx[i];
    }
    for (int i = 0; i < node->desc.n_params && plan->needs[n].dparam; i++) {
        args.dparam[i].data = exec->options.grads + g->params[node->first_param + i].offset;
        args.accumulate_dparam[i] = planned->accumulate_dparam[i];
    }
    err_t err = op_backward(planned->op, &args);
    if (err != ERR_OK) return err_context(err, "layer %s, backward", node->name);
    return count_backward(exec, call, n, &args, start);
}

err_t exec_rows(exec_t *exec, int section, const exec_batch_t *batch)
{
    const graph_t *g = exec->graph;
    const plan_t *plan = exec->plan;
    const int64_t block = g->sections[section].block;
    int first, end;
    ASSERT(section > 0 && section < g->n_sections && batch->n <= g->sections[section].max_rows);
    ASSERT(plan || batch->n == 0);
    plan_section(g, section, &first, &end);
    exec->n_rows[section] = batch->n;
    for (int64_t row = 0; row < batch->n; row += block) {
        const exec_call_t call = {plan, batch, section, row, batch->n - row < block ? batch->n - row : block};
        TRY(run_forward(exec, &call, NULL));
        for (int n = end - 1; n >= first && plan->key.training; n--)
            if (plan->needs[n].backward) TRY(layer_backward(exec, &call, n));
    }
    return ERR_OK;
}

err_t exec_backward(exec_t *exec, const exec_batch_t *batch, exec_ready_hook_t hook, void *context)
{
    const graph_t *g = exec->graph;
    const exec_call_t call = {exec->plan, batch, 0, 0, 0};
    ASSERT(exec->options.grads && (batch->n == 0 || (exec->plan && exec->plan->key.training)));
    if (batch->n == 0)
        TRY(backend_zero(exec->options.backend, exec->options.grads,
                         (size_t)g->n_flat_trained * sizeof(float)));
    for (int n = g->n_nodes - 1; n >= 0; n--) {
        int64_t offset, count;
        bool runs = batch->n > 0 && g->nodes[n].section == 0 && exec->plan->needs[n].backward;
        if (runs) TRY(layer_backward(exec, &call, n));
        graph_flat_range(g, n, &offset, &count);
        if (hook && count > 0 && offset < g->n_flat_trained) TRY(hook(context, offset, count));
    }
    return ERR_OK;
}

err_t exec_results(exec_t *exec, exec_results_t *out)
{
    const graph_t *g = exec->graph;
    const backend_memory_t *memory = exec->options.backend->memory;
    char *next = exec->results;
    *out = (exec_results_t){0};
    if (!exec->plan) return ERR_OK;
    for (int i = 0; i < g->n_outputs; i++) {
        const int value = g->outputs[i].value, section = g->values[value].section;
        const exec_call_t all = {exec->plan, &exec->batch, section, 0, 0};
        const void *at = exec->absent[value] ? NULL : value_at(exec, &all, value);
        size_t n_bytes = section == 0 ? plan_value_bytes(exec->plan, value)
                                      : (size_t)exec->n_rows[section] * plan_row_bytes(exec->plan, value);
        out->output[i] = at;
        if (!memory || !at || n_bytes == 0) continue;
        TRY(memory->download(next, at, n_bytes));
        out->output[i] = next;
        next += mem_round(n_bytes);
    }
    return memory ? memory->sync() : ERR_OK;
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

err_t exec_find_nonfinite(exec_t *exec, const exec_batch_t *batch, exec_nonfinite_t *out)
{
    const plan_key_t key = {batch->n, true, batch->shapes};
    *out = (exec_nonfinite_t){.sample = 0};
    if (batch->n == 0) return ERR_OK;
    return run_forward(exec, &(exec_call_t){find_plan(exec, &key), batch, 0, 0, 0}, out);
}

err_t exec_find_nonfinite_rows(exec_t *exec, int section, const exec_batch_t *batch, exec_nonfinite_t *out)
{
    const int64_t block = exec->graph->sections[section].block;
    for (int64_t row = 0; row < batch->n && !out->where[0]; row += block) {
        const int64_t n = batch->n - row < block ? batch->n - row : block;
        TRY(run_forward(exec, &(exec_call_t){exec->plan, batch, section, row, n}, out));
    }
    return ERR_OK;
}
