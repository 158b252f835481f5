#include "nn/fuse.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"

/* The one layer that reads a value; NULL when there is another, or none. */
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
    enum { MOST_CELLS = 255 }; /* a byte says which cell of the window it was */
    return a->mode == POOL_MAX && a->stride_h == a->kernel_h && a->stride_w == a->kernel_w && a->pad_h == 0 &&
           a->pad_w == 0 && a->kernel_h * a->kernel_w < MOST_CELLS;
}

/* The layers that follow `node` into it: none, ReLU, or ReLU and pooling. */
static int followers(const graph_t *g, const graph_node_t *node, const backend_t *backend,
                     const graph_node_t *out[2])
{
    op_kind_t kind = node->desc.kind;
    bool able =
        (kind == OP_CONV2D || kind == OP_LINEAR) && backend->kernel[kind] && backend->kernel[kind]->fuses;
    out[0] = able ? only_reader(g, node->layer + 1) : NULL;
    if (!out[0] || out[0]->desc.kind != OP_RELU) return 0;
    out[1] = kind == OP_CONV2D ? only_reader(g, out[0]->layer + 1) : NULL;
    if (!out[1] || out[1]->desc.kind != OP_POOL2D || !side_by_side(&out[1]->desc.attr.pool2d)) return 1;
    return 2;
}

static void absorb(graph_node_t *node, const graph_node_t *follower)
{
    op_desc_t *desc = &node->desc;
    epilogue_t *e = desc->kind == OP_CONV2D ? &desc->attr.conv2d.epilogue : &desc->attr.linear.epilogue;
    const pool2d_attr_t *pool = &follower->desc.attr.pool2d;
    size_t used = strlen(node->name);
    snprintf(node->name + used, sizeof node->name - used, "+%.*s", GRAPH_NAME_MAX - 1, follower->name);
    desc->y = follower->desc.y;
    if (follower->desc.kind == OP_RELU)
        e->relu = true;
    else
        e->pool_h = pool->kernel_h, e->pool_w = pool->kernel_w;
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

err_t graph_fuse(const graph_t *graph, const backend_t *backend, graph_t **out)
{
    graph_t *fused = NULL;
    int *value = NULL; /* in the fused graph, of each of the given one's */
    err_t err = ERR_OK;
    shape_t s = graph->sample;
    TRY_OUT(err, mem_new_array(graph->n_nodes + 1, sizeof *value, "fusing layers", &value));
    TRY_OUT(err, graph_new(graph->model, shape_3d(s.dim[1], s.dim[2], s.dim[3]), graph->n_classes, &fused));
    copy_tables(graph, fused);
    for (int n = 0; n < graph->n_nodes; n++) {
        const graph_node_t *node = &graph->nodes[n], *follower[2];
        if (value[n + 1] > 0) continue; /* it is in an earlier one */
        graph_node_t *copy = &fused->nodes[fused->n_nodes++];
        *copy = *node;
        for (int i = 0; i < node->desc.n_inputs; i++) copy->input[i] = value[node->input[i]];
        int n_followers = followers(graph, node, backend, follower);
        value[n + 1] = fused->n_nodes;
        for (int i = 0; i < n_followers; i++) {
            absorb(copy, follower[i]);
            value[follower[i]->layer + 1] = fused->n_nodes;
        }
    }
    *out = fused;
    fused = NULL;
out:
    graph_free(&fused);
    mem_free(&value);
    return err;
}
