/* SPDX-License-Identifier: MIT */
/* Prepares a graph for a backend: fuses layers; plans the operators for one set of input shapes, derives the lifetime
 * of every buffer, and places them in one arena, greedy by size. Running is left to exec.c. */
#include "compute/graph/plan.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

/* ---- Fusion ---- */
/* The only layer that reads a value; NULL if there is none or more than one. */
static const graph_node_t *only_reader(const graph_t *g, int value)
{
    if (graph_readers(g, value) != 1) return NULL;
    for (int n = 0; n < g->n_nodes; n++)
        for (int i = 0; i < g->nodes[n].desc.n_inputs; i++)
            if (g->nodes[n].input[i] == value) return &g->nodes[n];
    return NULL;
}

/* Whether `node`, with the layers it has absorbed so far, can absorb `next` of the model's graph, the only
 * reader of its output `value`; *fused then describes both. Further inputs of next are computed before
 * `node`. */
static bool takes_in(const graph_t *graph, const graph_node_t *node, const graph_node_t *next, int value,
                     const backend_t *backend, op_desc_t *fused)
{
    const op_kernel_t *kernel = backend->kernel[node->desc.kind];
    if (next->section != node->section) return false;
    for (int i = 0; i < next->desc.n_inputs; i++)
        if (next->input[i] != value && graph->values[next->input[i]].node >= node->layer) return false;
    *fused = node->desc;
    return kernel && kernel->fuses && op_absorb(fused, &next->desc);
}

/* "layer1.0.bn2" and "layer1.0.add" become "layer1.0.bn2+add". */
static void append_name(graph_node_t *node, const char *name)
{
    size_t used = strlen(node->name), same = 0;
    for (size_t i = 0; name[i] && name[i] == node->name[i]; i++)
        if (name[i] == '.') same = i + 1;
    snprintf(node->name + used, sizeof node->name - used, "+%.*s", GRAPH_NAME_MAX - 1, name + same);
}

/* next reads value `output` of the node. */
static void absorb(graph_node_t *node, const graph_node_t *next, const op_desc_t *fused, int output)
{
    int n_inputs = node->desc.n_inputs;
    append_name(node, next->name);
    for (int i = 0; i < next->desc.n_inputs && n_inputs < fused->n_inputs; i++)
        if (next->input[i] != output) node->input[n_inputs++] = next->input[i];
    node->desc = *fused;
    node->output[0] = next->output[0];
}

/* All but the nodes. */
static void copy_tables(const graph_t *from, graph_t *to)
{
    graph_t own = *to;
    *to = *from;
    to->values = own.values, to->nodes = own.nodes, to->params = own.params, to->states = own.states;
    to->n_nodes = 0;
    memcpy(to->values, from->values, (size_t)from->n_values * sizeof *to->values);
    memcpy(to->params, from->params, (size_t)from->n_params * sizeof *to->params);
    memcpy(to->states, from->states, (size_t)from->n_states * sizeof *to->states);
}

/* Points values at the nodes that compute them now, and sections at their first. */
static void connect(graph_t *g)
{
    for (int v = 0; v < g->n_values; v++) g->values[v].node = -1;
    for (int n = g->n_nodes - 1; n >= 0; n--) {
        const graph_node_t *node = &g->nodes[n];
        for (int i = 0; i < node->desc.n_outputs; i++) g->values[node->output[i]].node = n;
        g->sections[node->section].first_node = n;
    }
}

static bool is_output(const graph_t *g, int value)
{
    for (int i = 0; i < g->n_outputs; i++)
        if (g->outputs[i].value == value) return true;
    return false;
}

/* Inputs and outputs of the graph and of losses stay float32. */
static bool is_narrow(const graph_t *g, int value)
{
    const graph_value_t *v = &g->values[value];
    bool wide = is_output(g, value);
    for (int n = 0; n < g->n_nodes; n++)
        for (int i = 0; op_traits(g->nodes[n].desc.kind)->loss && i < g->nodes[n].desc.n_inputs; i++)
            wide = wide || g->nodes[n].input[i] == value;
    return v->node >= 0 && v->dtype == DTYPE_F32 && !wide;
}

static void store_narrow(graph_t *g)
{
    for (int v = 0; v < g->n_values; v++)
        if (is_narrow(g, v)) g->values[v].dtype = DTYPE_BF16;
    for (int n = 0; n < g->n_nodes; n++) {
        graph_node_t *node = &g->nodes[n];
        for (int i = 0; i < node->desc.n_inputs; i++) node->desc.x_dtype[i] = g->values[node->input[i]].dtype;
        for (int i = 0; i < node->desc.n_outputs; i++)
            node->desc.y_dtype[i] = g->values[node->output[i]].dtype;
    }
}

err_t graph_fuse(const graph_t *graph, const backend_t *backend, graph_t **out)
{
    graph_t *fused = NULL;
    bool *absorbed = NULL; /* [layer] */
    err_t err = ERR_OK;
    TRY_OUT(err, mem_new_array(graph->n_nodes, sizeof *absorbed, "fusing layers", &absorbed));
    TRY_OUT(err, graph_new(graph->model, &fused));
    copy_tables(graph, fused);
    for (int n = 0; n < graph->n_nodes; n++) {
        const graph_node_t *next;
        op_desc_t desc;
        if (absorbed[n]) continue;
        graph_node_t *node = &fused->nodes[fused->n_nodes++];
        *node = graph->nodes[n];
        while ((next = only_reader(graph, node->output[0])) &&
               takes_in(graph, node, next, node->output[0], backend, &desc)) {
            absorb(node, next, &desc, node->output[0]);
            absorbed[next->layer] = true;
        }
    }
    connect(fused);
    if (graph->compute == DTYPE_BF16 && backend->stores_bf16) store_narrow(fused);
    *out = fused;
    fused = NULL;
out:
    graph_free(&fused);
    mem_free(&absorbed);
    return err;
}

/* ---- Placement in the arena ---- */
static int by_size(const void *pa, const void *pb)
{
    const memplan_buffer_t *a = *(memplan_buffer_t *const *)pa, *b = *(memplan_buffer_t *const *)pb;
    if (a->n_bytes != b->n_bytes) return a->n_bytes < b->n_bytes ? 1 : -1;
    return a < b ? -1 : a > b; /* qsort is not stable */
}

/* Lowest offset at which `one` overlaps no placed buffer that is alive with it. */
static size_t lowest_offset(memplan_buffer_t *const *placed, int n, const memplan_buffer_t *one)
{
    size_t offset = 0;
    for (bool moved = true; moved;) {
        moved = false;
        for (int i = 0; i < n; i++) {
            const memplan_buffer_t *other = placed[i];
            size_t end = other->offset + mem_round(other->n_bytes);
            const bool alive_together = one->first <= other->last && other->first <= one->last;
            if (!alive_together || end <= offset || other->offset >= offset + mem_round(one->n_bytes))
                continue;
            offset = end;
            moved = true;
        }
    }
    return offset;
}

err_t memplan_solve(memplan_buffer_t *buffers, int n, size_t *n_bytes)
{
    memplan_buffer_t **order;
    TRY(mem_new_array(n, sizeof(void *), "a memory plan", &order));
    for (int i = 0; i < n; i++) order[i] = &buffers[i];
    qsort(order, (size_t)n, sizeof(void *), by_size);
    *n_bytes = 0;
    for (int i = 0; i < n; i++) {
        order[i]->offset = lowest_offset(order, i, order[i]);
        size_t end = order[i]->offset + mem_round(order[i]->n_bytes);
        if (end > *n_bytes) *n_bytes = end;
    }
    mem_free(&order);
    return ERR_OK;
}

size_t memplan_floor(const memplan_buffer_t *buffers, int n)
{
    size_t floor = 0;
    /* The maximum is reached in a step in which some buffer begins. */
    for (int i = 0; i < n; i++) {
        size_t alive = 0;
        for (int j = 0; j < n; j++)
            if (buffers[j].first <= buffers[i].first && buffers[j].last >= buffers[i].first)
                alive += mem_round(buffers[j].n_bytes);
        if (alive > floor) floor = alive;
    }
    return floor;
}

/* ---- The plan ---- */
enum { WORKSPACE_ALIGN = 256 };

void plan_section(const graph_t *g, int section, int *first, int *end)
{
    *first = g->sections[section].first_node;
    *end = section + 1 < g->n_sections ? g->sections[section + 1].first_node : g->n_nodes;
}

/* Steps: forward of section 0; forward and backward of one block of each section of rows; backward of section
 * 0. Without rows, step n < N is forward of layer n and step 2N−1−n its backward. */
static int section_step(const plan_t *plan, int section, int *n_nodes)
{
    int first, end, n_first, rows;
    plan_section(plan->graph, 0, &first, &rows);
    plan_section(plan->graph, section, &n_first, &end);
    *n_nodes = end - n_first;
    return section == 0 ? 0 : rows + 2 * (n_first - rows);
}

static int forward_step(const plan_t *plan, int node)
{
    const graph_node_t *layer = &plan->graph->nodes[node];
    int n, start = section_step(plan, layer->section, &n);
    return start + node - plan->graph->sections[layer->section].first_node;
}

static int backward_step(const plan_t *plan, int node)
{
    const graph_node_t *layer = &plan->graph->nodes[node];
    int n, start = section_step(plan, layer->section, &n);
    if (layer->section == 0) return 2 * plan->graph->n_nodes - 1 - node;
    return start + 2 * n - 1 - (node - plan->graph->sections[layer->section].first_node);
}

/* The last step of a section's blocks; of section 0, of its forward pass. */
static int last_step(const plan_t *plan, int section)
{
    int n, start = section_step(plan, section, &n);
    return start + (section == 0 ? n : 2 * n) - 1;
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

/* Index of a value among the outputs of its layer. */
static int output_index(const graph_t *g, int value)
{
    int i = 0;
    while (g->nodes[g->values[value].node].output[i] != value) i++;
    return i;
}

static size_t block_bytes(const plan_t *plan, int value)
{
    const op_desc_t *desc = &plan->nodes[plan->graph->values[value].node].op->desc;
    int i = output_index(plan->graph, value);
    return (size_t)shape_count(desc->y[i]) * dtype_size(desc->y_dtype[i]);
}

bool plan_keeps_rows(const plan_t *plan, int value)
{
    return plan->graph->values[value].section > 0 && is_output(plan->graph, value);
}

size_t plan_value_bytes(const plan_t *plan, int value)
{
    const graph_section_t *section = &plan->graph->sections[plan->graph->values[value].section];
    if (!plan_keeps_rows(plan, value)) return block_bytes(plan, value);
    return (size_t)((section->max_rows + section->block - 1) / section->block) * block_bytes(plan, value);
}

static shape_t shape_of_input(const graph_t *g, const plan_key_t *key, int i)
{
    return key->inputs ? key->inputs[i] : graph_shape(g, g->inputs[i].value);
}

size_t plan_row_bytes(const plan_t *plan, int value)
{
    const graph_t *g = plan->graph;
    const graph_value_t *v = &g->values[value];
    if (v->node >= 0) return block_bytes(plan, value) / (size_t)g->sections[v->section].block;
    int i = 0;
    while (g->inputs[i].value != value) i++;
    return (size_t)shape_count(shape_of_input(g, &plan->key, i)) * dtype_size(v->dtype);
}

/* Whether y and the first input, and their gradients, may share memory. */
static bool may_share(const graph_t *g, int n)
{
    const graph_node_t *node = &g->nodes[n];
    const op_desc_t *desc = &node->desc;
    return op_traits(desc->kind)->in_place && desc->x_dtype[0] == desc->y_dtype[0] &&
           g->values[node->input[0]].section == node->section;
}

/* Whether backward of a layer reads its input or output i. */
static bool backward_reads_x(const plan_t *plan, int n, int i)
{
    return plan->needs[n].backward && (plan->nodes[n].op->reads_x >> i & 1);
}

static bool backward_reads_y(const plan_t *plan, int n, int i)
{
    return plan->needs[n].backward && (plan->nodes[n].op->reads_y >> i & 1);
}

/* y may reuse x's memory if nothing reads x later: it is not the caller's input, and no other layer and no
 * backward pass reads it. */
static bool reuses_input(const plan_t *plan, int n)
{
    const graph_t *g = plan->graph;
    int value = g->nodes[n].input[0], producer = g->values[value].node;
    if (!may_share(g, n) || producer < 0 || graph_readers(g, value) != 1) return false;
    if (plan_keeps_rows(plan, g->nodes[n].output[0])) return false;
    return !backward_reads_x(plan, n, 0) && !backward_reads_y(plan, producer, output_index(g, value));
}

/* Keeps the inputs of a layer until it has read them. */
static void keep_inputs(plan_t *plan, int n)
{
    const graph_t *g = plan->graph;
    const graph_node_t *node = &g->nodes[n];
    for (int i = 0; i < node->desc.n_inputs; i++) {
        int value = node->input[i], buffer = plan->value[value];
        if (buffer < 0) continue;
        extend(plan, buffer, forward_step(plan, n));
        if (backward_reads_x(plan, n, i)) extend(plan, buffer, backward_step(plan, n));
        /* Every block reads it again. */
        if (g->values[value].section != node->section) extend(plan, buffer, last_step(plan, node->section));
    }
}

static void place_outputs(plan_t *plan, int n)
{
    const graph_t *g = plan->graph;
    const graph_node_t *node = &g->nodes[n];
    const int step = forward_step(plan, n);
    for (int i = 0; i < node->desc.n_outputs; i++) {
        int value = node->output[i];
        if (i == 0 && reuses_input(plan, n))
            plan->value[value] = plan->value[node->input[0]];
        else
            plan->value[value] = new_buffer(plan, plan_value_bytes(plan, value), step, step);
        if (backward_reads_y(plan, n, i)) extend(plan, plan->value[value], backward_step(plan, n));
        if (!is_output(g, value)) continue;
        /* Results are read before backward of section 0. */
        extend(plan, plan->value[value], last_step(plan, g->n_sections - 1));
        /* Rows of earlier blocks are in it. */
        int n_nodes;
        if (node->section > 0) extend(plan, plan->value[value], section_step(plan, node->section, &n_nodes));
    }
}

static void plan_forward(plan_t *plan)
{
    for (int n = 0; n < plan->graph->n_nodes; n++) {
        plan_node_t *node = &plan->nodes[n];
        int step = forward_step(plan, n), last = plan->needs[n].backward ? backward_step(plan, n) : step;
        keep_inputs(plan, n);
        place_outputs(plan, n);
        if (node->op->n_saved_bytes > 0) node->saved = new_buffer(plan, node->op->n_saved_bytes, step, last);
    }
}

bool plan_starts_zero(const plan_t *plan, int value)
{
    const graph_t *g = plan->graph;
    if (g->values[value].section > 0) return false;
    for (int n = 0; n < g->n_nodes; n++)
        for (int i = 0; i < g->nodes[n].desc.n_inputs; i++)
            if (g->nodes[n].section > 0 && g->nodes[n].input[i] == value && plan->needs[n].dx[i]) return true;
    return false;
}

/* The last layer that reads a value (the first in backward order) writes its gradient; the others add to it.
 * A layer that may work in place passes on the buffer of its own. */
static void plan_gradient(plan_t *plan, int n, int i)
{
    const graph_t *g = plan->graph;
    const graph_node_t *node = &g->nodes[n];
    int value = node->input[i], step = backward_step(plan, n), own = plan->gradient[node->output[0]];
    int *gradient = &plan->gradient[value];
    if (!plan->needs[n].dx[i]) return;
    if (*gradient >= 0)
        plan->nodes[n].accumulate_dx[i] = true;
    else if (i == 0 && may_share(g, n) && own >= 0)
        *gradient = own;
    else
        *gradient = new_buffer(plan, block_bytes(plan, value), step, step);
    extend(plan, *gradient, step);
    extend(plan, *gradient, backward_step(plan, g->values[value].node));
}

/* Whether a later layer, which comes earlier in backward, has written the gradients of a layer's
 * parameters. */
static bool is_begun(const plan_t *plan, int n)
{
    const graph_t *g = plan->graph;
    for (int later = n + 1; later < g->n_nodes; later++)
        if (plan->needs[later].dparam && g->nodes[later].first_param == g->nodes[n].first_param) return true;
    return g->nodes[n].section > 0;
}

static void plan_backward(plan_t *plan)
{
    const graph_t *g = plan->graph;
    for (int value = 0; value < g->n_values; value++)
        if (plan_starts_zero(plan, value))
            plan->gradient[value] = new_buffer(plan, block_bytes(plan, value), last_step(plan, 0) + 1,
                                               backward_step(plan, g->values[value].node));
    for (int n = g->n_nodes - 1; n >= 0; n--) {
        plan_node_t *node = &plan->nodes[n];
        const int step = backward_step(plan, n);
        for (int i = 0; i < g->nodes[n].desc.n_inputs; i++) plan_gradient(plan, n, i);
        for (int i = 0; i < g->nodes[n].desc.n_params; i++)
            node->accumulate_dparam[i] = plan->needs[n].dparam && is_begun(plan, n);
        const size_t n_addend = op_addend_bytes(node->op, node->accumulate_dx, node->accumulate_dparam);
        if (n_addend > 0) node->addend = new_buffer(plan, n_addend, step, step);
    }
}

/* A frozen layer before all trained ones runs in evaluation mode. */
static bool trains(const plan_t *plan, int n)
{
    return plan->key.training && (plan->needs[n].backward || plan->graph->nodes[n].desc.n_params == 0);
}

static err_t plan_operators(plan_t *plan, const backend_t *backend, const algorithms_t *algorithms)
{
    const graph_t *g = plan->graph;
    size_t n_workspace = 0;
    op_desc_t *descs = NULL;
    err_t err = mem_new_array(g->n_nodes, sizeof *descs, "a plan", &descs);
    if (err == ERR_OK) err = graph_infer(g, plan->key.n_samples, plan->key.inputs, descs);
    for (int n = 0; n < g->n_nodes && err == ERR_OK; n++) {
        op_algorithms_t wanted = {0};
        if (algorithms) algorithms_get(algorithms, &descs[n], &wanted);
        err = op_plan(backend, &descs[n], trains(plan, n), &wanted, &plan->nodes[n].op);
        if (err != ERR_OK) err = err_context(err, "layer %s", g->nodes[n].name);
        if (err == ERR_OK && plan->nodes[n].op->n_workspace_bytes > n_workspace)
            n_workspace = plan->nodes[n].op->n_workspace_bytes;
    }
    mem_free(&descs);
    plan->n_workspace_bytes = (n_workspace + WORKSPACE_ALIGN - 1) / WORKSPACE_ALIGN * WORKSPACE_ALIGN;
    return err;
}

static err_t allocate_plan(plan_t *plan)
{
    const graph_t *g = plan->graph;
    static const char what[] = "a plan";
    TRY(mem_new_array(g->n_nodes, sizeof *plan->nodes, what, &plan->nodes));
    TRY(mem_new_array(g->n_values, sizeof *plan->value, what, &plan->value));
    TRY(mem_new_array(g->n_values, sizeof *plan->gradient, what, &plan->gradient));
    /* Each value and its gradient, what each layer saves and adds. */
    TRY(mem_new_array(2 * (g->n_values + g->n_nodes), sizeof *plan->buffers, what, &plan->buffers));
    for (int n = 0; n < g->n_nodes; n++) plan->nodes[n].saved = plan->nodes[n].addend = -1;
    for (int value = 0; value < g->n_values; value++) plan->value[value] = plan->gradient[value] = -1;
    if (plan->key.training) return graph_needs_new(g, &plan->needs);
    return mem_new_array(g->n_nodes, sizeof *plan->needs, what, &plan->needs);
}

err_t plan_new(const graph_t *graph, const backend_t *backend, const algorithms_t *algorithms,
               const plan_key_t *key, plan_t **out)
{
    err_t err = ERR_OK;
    plan_t *plan = NULL;
    TRY_OUT(err, mem_new(sizeof *plan, "a plan", &plan));
    plan->graph = graph;
    plan->key = *key;
    if (key->inputs) {
        memcpy(plan->inputs, key->inputs, (size_t)graph->n_inputs * sizeof *key->inputs);
        plan->key.inputs = plan->inputs;
    }
    TRY_OUT(err, allocate_plan(plan));
    TRY_OUT(err, plan_operators(plan, backend, algorithms));
    plan_forward(plan);
    if (key->training) plan_backward(plan);
    TRY_OUT(err, memplan_solve(plan->buffers, plan->n_buffers, &plan->n_arena_bytes));
    /* The workspace is used in every step. It comes first in the arena, so that it is aligned as a GPU's libraries
     * require. */
    for (int i = 0; i < plan->n_buffers; i++) plan->buffers[i].offset += plan->n_workspace_bytes;
    plan->n_arena_bytes += plan->n_workspace_bytes;
    plan->n_floor_bytes = memplan_floor(plan->buffers, plan->n_buffers) + plan->n_workspace_bytes;
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
    mem_free(&(*plan)->needs);
    mem_free(&(*plan)->value);
    mem_free(&(*plan)->gradient);
    mem_free(&(*plan)->buffers);
    mem_free(plan);
}

bool plan_serves(const plan_t *plan, const plan_key_t *key)
{
    bool same = plan->key.n_samples == key->n_samples && plan->key.training == key->training;
    for (int i = 0; same && i < plan->graph->n_inputs; i++)
        same = shape_equal(shape_of_input(plan->graph, &plan->key, i), shape_of_input(plan->graph, key, i));
    return same;
}
