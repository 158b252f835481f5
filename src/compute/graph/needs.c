/* SPDX-License-Identifier: MIT */
/* Finds the layers that take part in backward: those that depend on trained parameters and lead to a loss. */
#include "compute/graph/needs.h"

#include "base/mem.h"

/* The layer whose gradient input i of a layer is; NULL: the input is constant. */
static graph_needs_t *producer_of(const graph_t *g, graph_needs_t *needs, const graph_node_t *node, int i)
{
    int producer = g->values[node->input[i]].node;
    return i < op_traits(node->desc.kind)->n_gradients && producer >= 0 ? &needs[producer] : NULL;
}

static bool is_trained(const graph_t *g, const graph_node_t *node)
{
    return node->desc.n_params > 0 && !g->params[node->first_param].frozen;
}

err_t graph_needs_new(const graph_t *g, graph_needs_t **out)
{
    graph_needs_t *needs;
    TRY(mem_new_array(g->n_nodes, sizeof *needs, "a graph's gradients", &needs));
    for (int n = 0; n < g->n_nodes; n++) {
        const graph_node_t *node = &g->nodes[n];
        needs[n].depends = is_trained(g, node);
        for (int i = 0; i < node->desc.n_inputs; i++) {
            const graph_needs_t *producer = producer_of(g, needs, node, i);
            if (producer && producer->depends) needs[n].depends = true;
        }
    }
    for (int n = g->n_nodes - 1; n >= 0; n--) {
        const graph_node_t *node = &g->nodes[n];
        graph_needs_t *need = &needs[n];
        need->backward = need->depends && (need->leads || op_traits(node->desc.kind)->loss);
        need->dparam = need->backward && is_trained(g, node);
        for (int i = 0; i < node->desc.n_inputs && need->backward; i++) {
            graph_needs_t *producer = producer_of(g, needs, node, i);
            need->dx[i] = producer && producer->depends;
            if (need->dx[i]) producer->leads = true;
        }
    }
    *out = needs;
    return ERR_OK;
}
