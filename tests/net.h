/* SPDX-License-Identifier: MIT */
/* A graph with its weights, for tests of their exchange with other programs. */
#ifndef TESTS_NET_H
#define TESTS_NET_H

#include <string.h>

#include "base/mem.h"
#include "compute/graph/graph.h"
#include "tests/op_util.h"

typedef struct net {
    graph_t *graph;
    float *params, *states;
} net_t;

/* Finishes the graph; weights are initial ones. */
static inline void net_finish(net_t *net)
{
    graph_t *g = net->graph;
    must(graph_finish(g), "graph_finish");
    must(mem_new_array(g->n_flat_params, sizeof(float), "weights", &net->params), "memory");
    must(mem_new_array(g->n_flat_states, sizeof(float), "running values", &net->states), "memory");
    graph_init(g, 5, net->params, net->states);
}

static inline void net_free(net_t *net)
{
    graph_free(&net->graph);
    mem_free(&net->params);
    mem_free(&net->states);
}

/* The first element of a parameter or state. */
static inline float *net_tensor(const net_t *net, const char *name)
{
    const graph_t *g = net->graph;
    for (int i = 0; i < g->n_params; i++)
        if (strcmp(g->params[i].name, name) == 0) return net->params + g->params[i].offset;
    for (int i = 0; i < g->n_states; i++)
        if (strcmp(g->states[i].name, name) == 0) return net->states + g->states[i].offset;
    ASSERT(!"a tensor of that name");
    return NULL;
}

#endif
