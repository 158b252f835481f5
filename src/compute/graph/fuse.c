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

/* Whether `node`, with the layers it has absorbed so far, can absorb `next`, the only reader of its output
 * `value`; *fused then describes both. Further inputs of next are computed before `node`. */
static bool takes_in(const graph_node_t *node, const graph_node_t *next, int value, const backend_t *backend,
                     op_desc_t *fused)
{
    const op_kernel_t *kernel = backend->kernel[node->desc.kind];
    for (int i = 0; i < next->desc.n_inputs; i++)
        if (next->input[i] != value && next->input[i] > node->layer) return false;
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

/* value[v]: the fused graph's value for value v of the given graph. */
static void absorb(graph_node_t *node, const graph_node_t *next, const op_desc_t *fused, int output,
                   const int *value)
{
    int n_inputs = node->desc.n_inputs;
    append_name(node, next->name);
    for (int i = 0; i < next->desc.n_inputs && n_inputs < fused->n_inputs; i++)
        if (next->input[i] != output) node->input[n_inputs++] = value[next->input[i]];
    node->desc = *fused;
}

static void copy_tables(const graph_t *from, graph_t *to)
{
    graph_t own = *to;
    *to = *from;
    to->nodes = own.nodes, to->params = own.params, to->states = own.states;
    to->n_nodes = 0;
    memcpy(to->params, from->params, (size_t)from->n_params * sizeof *to->params);
    memcpy(to->states, from->states, (size_t)from->n_states * sizeof *to->states);
}

/* Storage type of a value when products are bfloat16. The last layer is the loss. */
static dtype_t stored_as(const graph_t *g, int value)
{
    bool wide = value == 0 || value == g->n_nodes || value == g->nodes[g->n_nodes - 1].input[0];
    return wide ? DTYPE_F32 : DTYPE_BF16;
}

static void store_narrow(graph_t *g)
{
    for (int n = 0; n < g->n_nodes; n++) {
        op_desc_t *desc = &g->nodes[n].desc;
        for (int i = 0; i < desc->n_inputs; i++)
            if (g->nodes[n].input[i] != GRAPH_TRUTH) desc->x_dtype[i] = stored_as(g, g->nodes[n].input[i]);
        desc->y_dtype[0] = stored_as(g, n + 1);
    }
}

err_t graph_fuse(const graph_t *graph, const backend_t *backend, graph_t **out)
{
    graph_t *fused = NULL;
    int *value = NULL; /* [v]: the fused graph's value for value v of the given one */
    err_t err = ERR_OK;
    shape_t s = graph->sample;
    TRY_OUT(err, mem_new_array(graph->n_nodes + 1, sizeof *value, "fusing layers", &value));
    TRY_OUT(err, graph_new(graph->model, shape_3d(s.dim[1], s.dim[2], s.dim[3]), graph->n_classes, &fused));
    copy_tables(graph, fused);
    for (int n = 0; n < graph->n_nodes; n++) {
        const graph_node_t *node = &graph->nodes[n], *next;
        if (value[n + 1] > 0) continue; /* absorbed by an earlier node */
        graph_node_t *copy = &fused->nodes[fused->n_nodes++];
        *copy = *node;
        for (int i = 0; i < node->desc.n_inputs; i++)
            if (node->input[i] != GRAPH_TRUTH) copy->input[i] = value[node->input[i]];
        int output = n + 1;
        op_desc_t desc;
        value[output] = fused->n_nodes;
        while ((next = only_reader(graph, output)) && takes_in(copy, next, output, backend, &desc)) {
            absorb(copy, next, &desc, output, value);
            output = next->layer + 1;
            value[output] = fused->n_nodes;
        }
    }
    if (graph->compute == DTYPE_BF16 && backend->stores_bf16) store_narrow(fused);
    *out = fused;
    fused = NULL;
out:
    graph_free(&fused);
    mem_free(&value);
    return err;
}
