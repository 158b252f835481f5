/* SPDX-License-Identifier: MIT */
/* Rewrites a model's graph into the one a backend runs: absorbs layers into the epilogue of their producer
 * and decides which values are stored as bfloat16. */
#include "compute/graph/fuse.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"

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

static bool loss_reads(const graph_t *g, int value)
{
    for (int n = 0; n < g->n_nodes; n++)
        for (int i = 0; op_traits(g->nodes[n].desc.kind)->loss && i < g->nodes[n].desc.n_inputs; i++)
            if (g->nodes[n].input[i] == value) return true;
    return false;
}

/* Inputs and outputs of the graph and of losses stay float32. */
static bool is_narrow(const graph_t *g, int value)
{
    const graph_value_t *v = &g->values[value];
    bool output = false;
    for (int i = 0; i < g->n_outputs; i++) output = output || g->outputs[i].value == value;
    return v->node >= 0 && v->dtype == DTYPE_F32 && !output && !loss_reads(g, value);
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
