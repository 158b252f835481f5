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

static bool side_by_side(const pool2d_attr_t *a)
{
    enum { MOST_CELLS = 255 }; /* the mask has one byte per window */
    return a->mode == POOL_MAX && a->stride_h == a->kernel_h && a->stride_w == a->kernel_w && a->pad_h == 0 &&
           a->pad_w == 0 && a->kernel_h * a->kernel_w < MOST_CELLS;
}

static epilogue_t *epilogue_of(op_desc_t *desc)
{
    return desc->kind == OP_CONV2D   ? &desc->attr.conv2d.epilogue
           : desc->kind == OP_LINEAR ? &desc->attr.linear.epilogue
                                     : &desc->attr.batch_norm.epilogue;
}

/* The other operand of an addition that reads `value`. */
static int other_input(const graph_node_t *add, int value)
{
    return add->input[add->input[0] == value];
}

/* Whether `node`, with the layers it has absorbed so far, can absorb `next`, the only reader of its output
 * `value`. */
static bool takes_in(graph_node_t *node, const graph_node_t *next, int value, const backend_t *backend)
{
    op_kind_t kind = node->desc.kind;
    bool able = kind == OP_CONV2D || kind == OP_LINEAR || kind == OP_BATCH_NORM;
    if (!able || !backend->kernel[kind] || !backend->kernel[kind]->fuses) return false;
    epilogue_t *e = epilogue_of(&node->desc);
    switch (next->desc.kind) {
    case OP_ADD: /* the other operand is computed before `node` */
        return kind == OP_BATCH_NORM && node->desc.n_inputs == 1 && !e->relu &&
               other_input(next, value) <= node->layer;
    case OP_RELU:
        return !e->relu;
    case OP_POOL2D:
        return kind == OP_CONV2D && e->relu && e->pool_h == 0 && side_by_side(&next->desc.attr.pool2d);
    default:
        return false;
    }
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
static void absorb(graph_node_t *node, const graph_node_t *next, int output, const int *value)
{
    op_desc_t *desc = &node->desc;
    epilogue_t *e = epilogue_of(desc);
    const pool2d_attr_t *pool = &next->desc.attr.pool2d;
    append_name(node, next->name);
    desc->y[0] = next->desc.y[0];
    if (next->desc.kind == OP_ADD) {
        node->input[1] = value[other_input(next, output)];
        desc->x[1] = desc->x[0];
        desc->n_inputs = 2;
    } else if (next->desc.kind == OP_RELU) {
        e->relu = true;
    } else {
        e->pool_h = pool->kernel_h, e->pool_w = pool->kernel_w;
    }
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
        value[output] = fused->n_nodes;
        while ((next = only_reader(graph, output)) && takes_in(copy, next, output, backend)) {
            absorb(copy, next, output, value);
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
