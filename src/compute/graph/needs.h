/* SPDX-License-Identifier: MIT */
/* What a backward pass has to compute: gradients on the paths from trained parameters to losses, no others. */
#ifndef COMPUTE_GRAPH_NEEDS_H
#define COMPUTE_GRAPH_NEEDS_H

#include "compute/graph/graph.h"

typedef struct graph_needs {
    bool depends;           /* the layer, or one it depends on, is trained */
    bool leads;             /* a layer that reads it is part of backward */
    bool backward;          /* depends, and leads to a loss */
    bool dparam;            /* gradients of its parameters */
    bool dx[OP_MAX_INPUTS]; /* gradients of its inputs */
} graph_needs_t;

/* ERR_USAGE if graph->freeze names a layer that there is not, or that has no parameters. */
err_t graph_check_freeze(const graph_t *graph);

/* needs  [n_nodes], zero; free it with mem_free */
err_t graph_needs_new(const graph_t *graph, graph_needs_t **needs);

#endif
