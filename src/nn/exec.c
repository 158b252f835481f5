#include "nn/exec.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/rng.h"
#include "base/trace.h"
#include "nn/fuse.h"
#include "nn/plan.h"

enum { MAX_PLANS = 32 };

struct exec {
    exec_options_t options;
    graph_t *graph; /* the caller's, fused */
    plan_t *plans[MAX_PLANS];
    int n_plans;
    char *arena;
    size_t n_arena_bytes, n_floor_bytes;
    uint64_t dropout_key;
    const float *losses, *logits; /* of the last exec_forward, in the arena */
    exec_cost_t *costs;           /* [n_nodes] */
};

err_t exec_new(const exec_options_t *options, exec_t **out)
{
    exec_t *exec;
    TRY(mem_new(sizeof *exec, "an executor", &exec));
    exec->options = *options;
    exec->dropout_key = rng_key(options->seed, RNG_DROPOUT);
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
    for (int i = 0; i < (*exec)->n_plans; i++) plan_free(&(*exec)->plans[i]);
    graph_free(&(*exec)->graph);
    mem_free(&(*exec)->arena);
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
    return mem_new(exec->n_arena_bytes, "activations (a smaller batch needs less)", &exec->arena);
}

size_t exec_arena_bytes(const exec_t *exec)
{
    return exec->n_arena_bytes;
}

size_t exec_floor_bytes(const exec_t *exec)
{
    return exec->n_floor_bytes;
}

static float *at(const exec_t *exec, const plan_t *plan, int buffer)
{
    return (float *)(void *)(exec->arena + plan->buffers[buffer].offset);
}

/* What forward and backward of a layer have in common. */
static op_args_t layer_args(exec_t *exec, const plan_t *plan, int node, const exec_batch_t *batch)
{
    const graph_t *g = exec->graph;
    const graph_node_t *layer = &g->nodes[node];
    float *states = batch->states ? batch->states : exec->options.states;
    op_args_t args = {
        .y = at(exec, plan, plan->nodes[node].y),
        .saved = plan->nodes[node].saved >= 0 ? (void *)at(exec, plan, plan->nodes[node].saved) : NULL,
        .workspace = at(exec, plan, plan->workspace),
        .dropout_key = exec->dropout_key,
        .layer = (uint32_t)layer->layer,
        .step = batch->step,
        .first_sample = batch->first_sample,
        .labels = batch->labels,
        .loss_scale = batch->loss_scale,
        .sum_shared = exec->options.sum_shared,
        .share_context = exec->options.share_context,
    };
    for (int i = 0; i < layer->desc.n_inputs; i++)
        args.x[i] = layer->input[i] == 0 ? batch->pixels : at(exec, plan, plan->nodes[layer->input[i] - 1].y);
    for (int i = 0; i < layer->desc.n_params; i++)
        args.param[i] = exec->options.params + g->params[layer->first_param + i].offset;
    for (int i = 0; i < layer->desc.n_states; i++)
        args.state[i] = states + g->states[layer->first_state + i].offset;
    return args;
}

static bool all_finite(const float *values, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        if (!isfinite(values[i])) return false;
    return true;
}

static err_t check_layer(exec_t *exec, const plan_t *plan, int node, const op_args_t *args, char *out)
{
    const graph_t *g = exec->graph;
    const graph_node_t *layer = &g->nodes[node];
    for (int i = 0; i < layer->desc.n_params; i++) {
        const graph_param_t *p = &g->params[layer->first_param + i];
        if (!all_finite(args->param[i], shape_count(p->shape))) {
            snprintf(out, EXEC_WHERE_MAX, "the parameter %s", p->name);
            return ERR_OK;
        }
    }
    if (!all_finite(args->y, shape_count(plan->nodes[node].op->desc.y)))
        snprintf(out, EXEC_WHERE_MAX, "the output of layer %s", layer->name);
    return ERR_OK;
}

/* Seconds of a layer's pass that began at `start` and ends now; also a span of the trace. */
static double pass_sec(const exec_t *exec, int node, const exec_batch_t *batch, double start)
{
    const graph_node_t *layer = &exec->graph->nodes[node];
    double end = clock_sec();
    trace_add(TRACE_TRAINING, &(trace_span_t){layer->name, op_traits(layer->desc.kind)->name, start, end,
                                              (int64_t)batch->step, 0});
    return end - start;
}

static void count_forward(exec_t *exec, const plan_t *plan, int node, const exec_batch_t *batch, double start)
{
    exec_cost_t *cost = &exec->costs[node];
    cost->forward_sec += pass_sec(exec, node, batch, start);
    cost->forward_macs += (double)op_macs(&plan->nodes[node].op->desc);
}

/* A gradient of the input and one of the weights are each as many products as forward. */
static void count_backward(exec_t *exec, const plan_t *plan, int node, const exec_batch_t *batch,
                           double start)
{
    const plan_node_t *planned = &plan->nodes[node];
    exec_cost_t *cost = &exec->costs[node];
    cost->backward_sec += pass_sec(exec, node, batch, start);
    int n_products = (planned->op->desc.n_params > 0) + (planned->dx[0] >= 0);
    cost->backward_macs += n_products * (double)op_macs(&planned->op->desc);
}

const graph_t *exec_graph(const exec_t *exec)
{
    return exec->graph;
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
        args.predictions = batch->predictions;
        /* A rank that looks for NaN may be alone. */
        if (nonfinite) args.sum_shared = NULL;
        double start = clock_sec();
        err_t err = op_forward(plan->nodes[n].op, &args);
        if (err != ERR_OK) return err_context(err, "layer %s, forward", g->nodes[n].name);
        if (training && !nonfinite) count_forward(exec, plan, n, batch, start);
        if (nonfinite && !nonfinite[0]) TRY(check_layer(exec, plan, n, &args, nonfinite));
    }
    return ERR_OK;
}

err_t exec_forward(exec_t *exec, const exec_batch_t *batch, bool training, double *loss_sum)
{
    *loss_sum = 0;
    if (batch->n == 0) return ERR_OK;
    TRY(run_forward(exec, batch, training, NULL));
    const plan_t *plan = find_plan(exec, batch->n, training);
    int last = exec->graph->n_nodes - 1;
    exec->losses = at(exec, plan, plan->nodes[last].y);
    exec->logits = layer_args(exec, plan, last, batch).x[0];
    for (int64_t i = 0; i < batch->n; i++) *loss_sum += exec->losses[i];
    return ERR_OK;
}

const float *exec_losses(const exec_t *exec)
{
    return exec->losses;
}

const float *exec_logits(const exec_t *exec)
{
    return exec->logits;
}

static err_t layer_backward(exec_t *exec, const plan_t *plan, int n, const exec_batch_t *batch)
{
    const graph_t *g = exec->graph;
    const graph_node_t *layer = &g->nodes[n];
    const plan_node_t *planned = &plan->nodes[n];
    op_args_t args = layer_args(exec, plan, n, batch);
    args.training = true;
    args.dy = planned->dy >= 0 ? at(exec, plan, planned->dy) : NULL;
    for (int i = 0; i < layer->desc.n_inputs; i++)
        args.dx[i] = planned->dx[i] >= 0 ? at(exec, plan, planned->dx[i]) : NULL;
    for (int i = 0; i < layer->desc.n_params; i++)
        args.dparam[i] = exec->options.grads + g->params[layer->first_param + i].offset;
    err_t err = op_backward(planned->op, &args);
    if (err != ERR_OK) return err_context(err, "layer %s, backward", layer->name);
    /* Where an earlier contribution is there already, dx went to a buffer of its own. */
    for (int i = 0; i < layer->desc.n_inputs; i++)
        if (planned->add_to[i] >= 0)
            TRY(exec->options.backend->accumulate(at(exec, plan, planned->add_to[i]), args.dx[i],
                                                  shape_count(planned->op->desc.x[i])));
    return ERR_OK;
}

/* End of a layer's parameters in the flat buffer, its padding included: where those of the layer before
 * begin. */
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
    if (!plan) memset(exec->options.grads, 0, (size_t)g->n_flat_params * sizeof(float));
    for (int n = g->n_nodes - 1; n >= 0; n--) {
        double start = clock_sec();
        if (plan && plan->nodes[n].in_backward) {
            TRY(layer_backward(exec, plan, n, batch));
            count_backward(exec, plan, n, batch, start);
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
