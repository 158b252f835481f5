/* SPDX-License-Identifier: MIT */
/* Plans the operators of a graph for one batch size, derives the lifetime of every buffer, and places them in
 * one arena. Running is left to exec.c. */
#include "compute/graph/plan.h"

#include "base/mem.h"

/* Step n < N is forward of layer n; step 2N−1−n is its backward. */
static int backward_step(const plan_t *plan, int node)
{
    return 2 * plan->graph->n_nodes - 1 - node;
}

static int new_buffer(plan_t *plan, size_t n_bytes, int first, int last)
{
    plan->buffers[plan->n_buffers] = (memplan_buffer_t){n_bytes, first, last, 0};
    return plan->n_buffers++;
}

static void extend(plan_t *plan, int buffer, int step)
{
    memplan_buffer_t *b = &plan->buffers[buffer];
    if (step < b->first) b->first = step;
    if (step > b->last) b->last = step;
}

/* Whether y and the first input, and their gradients, may share memory. */
static bool may_share(const graph_t *g, int n)
{
    const op_desc_t *desc = &g->nodes[n].desc;
    return op_traits(desc->kind)->in_place && desc->x_dtype[0] == desc->y_dtype[0];
}

/* y may reuse x's memory if nothing reads x later: it is not the caller's input, and no other layer and no
 * backward pass reads it. */
static bool reuses_input(const plan_t *plan, int n)
{
    const graph_t *g = plan->graph;
    int value = g->nodes[n].input[0];
    const op_traits_t *traits = op_traits(g->nodes[n].desc.kind);
    if (!may_share(g, n) || value == 0 || graph_readers(g, value) != 1) return false;
    return !plan->training ||
           (!(traits->backward_needs_x & 1) && !op_traits(g->nodes[value - 1].desc.kind)->backward_needs_y);
}

static size_t bytes_of(const plan_t *plan, int value)
{
    const op_desc_t *desc = &plan->nodes[value - 1].op->desc;
    return (size_t)shape_count(desc->y[0]) * dtype_size(desc->y_dtype[0]);
}

static void plan_forward(plan_t *plan)
{
    const graph_t *g = plan->graph;
    for (int n = 0; n < g->n_nodes; n++) {
        plan_node_t *node = &plan->nodes[n];
        const op_traits_t *traits = op_traits(g->nodes[n].desc.kind);
        for (int i = 0; i < g->nodes[n].desc.n_inputs; i++) {
            int value = g->nodes[n].input[i];
            if (value <= 0) continue;
            extend(plan, plan->nodes[value - 1].y, n);
            if (plan->training && traits->backward_needs_x >> i & 1)
                extend(plan, plan->nodes[value - 1].y, backward_step(plan, n));
        }
        if (reuses_input(plan, n))
            node->y = plan->nodes[g->nodes[n].input[0] - 1].y;
        else
            node->y = new_buffer(plan, bytes_of(plan, n + 1), n, n);
        if (plan->training && traits->backward_needs_y) extend(plan, node->y, backward_step(plan, n));
        if (node->op->n_saved_bytes > 0)
            node->saved =
                new_buffer(plan, node->op->n_saved_bytes, n, plan->training ? backward_step(plan, n) : n);
    }
}

/* The last layer that reads a value (the first in backward order) writes its gradient; the others add to it.
 * A layer that may work in place passes on its dy buffer. */
static void plan_gradient(plan_t *plan, int n, int i)
{
    const graph_t *g = plan->graph;
    plan_node_t *node = &plan->nodes[n];
    int value = g->nodes[n].input[i], step = backward_step(plan, n);
    if (value <= 0 || !plan->nodes[value - 1].in_backward) return;
    plan_node_t *producer = &plan->nodes[value - 1];
    node->accumulate[i] = producer->dy >= 0;
    if (node->accumulate[i]) {
        node->dx[i] = producer->dy;
        extend(plan, producer->dy, step);
        return;
    }
    if (i == 0 && may_share(g, n) && node->dy >= 0)
        producer->dy = node->dy;
    else
        producer->dy = new_buffer(plan, bytes_of(plan, value), step, step);
    extend(plan, producer->dy, backward_step(plan, value - 1));
    node->dx[i] = producer->dy;
}

static void plan_gradients(plan_t *plan, int n)
{
    plan_node_t *node = &plan->nodes[n];
    int step = backward_step(plan, n);
    for (int i = 0; i < plan->graph->nodes[n].desc.n_inputs; i++) plan_gradient(plan, n, i);
    size_t n_bytes = op_addend_bytes(node->op, node->accumulate, NULL);
    if (n_bytes > 0) node->addend = new_buffer(plan, n_bytes, step, step);
}

static void plan_backward(plan_t *plan)
{
    const graph_t *g = plan->graph;
    for (int n = 0; n < g->n_nodes; n++) {
        plan->nodes[n].in_backward = g->nodes[n].desc.n_params > 0;
        for (int i = 0; i < g->nodes[n].desc.n_inputs; i++) {
            int value = g->nodes[n].input[i];
            if (value > 0 && plan->nodes[value - 1].in_backward) plan->nodes[n].in_backward = true;
        }
    }
    for (int n = g->n_nodes - 1; n >= 0; n--) plan_gradients(plan, n);
}

static err_t plan_operators(plan_t *plan, const backend_t *backend, const algorithms_t *algorithms)
{
    const graph_t *g = plan->graph;
    size_t n_workspace = 0;
    for (int n = 0; n < g->n_nodes; n++) {
        op_desc_t desc;
        op_algorithms_t wanted = {0};
        err_t err = graph_batch_desc(g, n, plan->n_samples, &desc);
        if (err == ERR_OK && algorithms) algorithms_get(algorithms, &desc, &wanted);
        if (err == ERR_OK) err = op_plan(backend, &desc, plan->training, &wanted, &plan->nodes[n].op);
        if (err != ERR_OK) return err_context(err, "layer %s", g->nodes[n].name);
        if (plan->nodes[n].op->n_workspace_bytes > n_workspace)
            n_workspace = plan->nodes[n].op->n_workspace_bytes;
    }
    plan->workspace = new_buffer(plan, n_workspace, 0, 2 * g->n_nodes);
    return ERR_OK;
}

err_t plan_new(const graph_t *graph, const backend_t *backend, const algorithms_t *algorithms,
               int64_t n_samples, bool training, plan_t **out)
{
    err_t err = ERR_OK;
    plan_t *plan = NULL;
    TRY_OUT(err, mem_new(sizeof *plan, "a plan", &plan));
    plan->graph = graph;
    plan->n_samples = n_samples;
    plan->training = training;
    TRY_OUT(err, mem_new_array(graph->n_nodes, sizeof *plan->nodes, "a plan", &plan->nodes));
    /* Per layer: y, saved, a gradient for each input, gradients to be added; one workspace. */
    TRY_OUT(err, mem_new_array(graph->n_nodes * (3 + OP_MAX_INPUTS) + 1, sizeof *plan->buffers, "a plan",
                               &plan->buffers));
    for (int n = 0; n < graph->n_nodes; n++) {
        plan_node_t *node = &plan->nodes[n];
        node->y = node->dy = node->saved = node->addend = -1;
        for (int i = 0; i < OP_MAX_INPUTS; i++) node->dx[i] = -1;
    }
    TRY_OUT(err, plan_operators(plan, backend, algorithms));
    plan_forward(plan);
    if (training) plan_backward(plan);
    TRY_OUT(err, memplan_solve(plan->buffers, plan->n_buffers, &plan->n_arena_bytes));
    plan->n_floor_bytes = memplan_floor(plan->buffers, plan->n_buffers);
    *out = plan;
    return ERR_OK;
out:
    plan_free(&plan);
    return err;
}

void plan_free(plan_t **plan)
{
    if (!*plan) return;
    for (int n = 0; (*plan)->nodes && n < (*plan)->graph->n_nodes; n++) op_free(&(*plan)->nodes[n].op);
    mem_free(&(*plan)->nodes);
    mem_free(&(*plan)->buffers);
    mem_free(plan);
}
