/* SPDX-License-Identifier: MIT */
/* Runs planned layers forward and backward. plan.c places the buffers, fuse.c fuses the layers,
 * exec_results.c reads results, exec_costs.c counts times and looks for NaN. */
#include "compute/graph/exec.h"

#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/rng.h"
#include "compute/graph/exec_impl.h"
#include "compute/graph/fuse.h"

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

void *exec_value(const exec_t *exec, const exec_call_t *call, int value)
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
    for (int i = 0; i < node->desc.n_inputs; i++) args.x[i].data = exec_value(exec, call, node->input[i]);
    for (int i = 0; i < node->desc.n_outputs; i++) args.y[i].data = exec_value(exec, call, node->output[i]);
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
        out = out || exec->absent[node->input[i]] || !exec_value(exec, call, node->input[i]);
    for (int i = 0; i < node->desc.n_outputs; i++) exec->absent[node->output[i]] = out;
    ASSERT(!out || !call->plan->key.training);
    return out;
}

/* On a GPU one launch for all weights instead of several per layer. */
static err_t round_params(const exec_t *exec)
{
    const backend_t *backend = exec->options.backend;
    if (!exec->params_bf16) return ERR_OK;
    return backend->narrow(exec->options.params, exec->params_bf16, exec->graph->n_flat_params,
                           backend->device()->stream);
}

err_t exec_run_forward(exec_t *exec, const exec_call_t *call, exec_nonfinite_t *nonfinite)
{
    const graph_t *g = exec->graph;
    int first, end;
    if (call->section == 0) TRY(round_params(exec));
    plan_section(g, call->section, &first, &end);
    for (int n = first; n < end; n++) {
        if (is_left_out(exec, call, n)) continue;
        op_args_t args = layer_args(exec, call, n);
        /* The rank that searches for NaN may be the only one: no collective calls. */
        if (nonfinite) args.batch_norm.sum_shared = NULL;
        double start = clock_sec();
        err_t err = op_forward(call->plan->nodes[n].op, &args);
        if (err != ERR_OK) return err_context(err, "layer %s, forward", g->nodes[n].name);
        if (!nonfinite) TRY(exec_count_forward(exec, call, n, &args, start));
        if (nonfinite && !nonfinite->where[0]) TRY(exec_check_layer(exec, call, n, nonfinite));
        if (!nonfinite) TRY(exec_tally(exec, call, n));
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
    TRY(exec_run_forward(exec, &(exec_call_t){exec->plan, &exec->batch, 0, 0, 0}, NULL));
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
    return exec_count_backward(exec, call, n, &args, start);
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
        TRY(exec_run_forward(exec, &call, NULL));
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

err_t exec_find_nonfinite(exec_t *exec, const exec_batch_t *batch, exec_nonfinite_t *out)
{
    const plan_key_t key = {batch->n, true, batch->shapes};
    *out = (exec_nonfinite_t){.sample = 0};
    if (batch->n == 0) return ERR_OK;
    return exec_run_forward(exec, &(exec_call_t){find_plan(exec, &key), batch, 0, 0, 0}, out);
}

err_t exec_find_nonfinite_rows(exec_t *exec, int section, const exec_batch_t *batch, exec_nonfinite_t *out)
{
    const int64_t block = exec->graph->sections[section].block;
    for (int64_t row = 0; row < batch->n && !out->where[0]; row += block) {
        const int64_t n = batch->n - row < block ? batch->n - row : block;
        TRY(exec_run_forward(exec, &(exec_call_t){exec->plan, batch, section, row, n}, out));
    }
    return ERR_OK;
}
