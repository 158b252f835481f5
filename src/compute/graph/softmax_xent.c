/* SPDX-License-Identifier: MIT */
/* The losses of models whose samples, or regions, have one class each. */
#include "compute/graph/layers.h"

int nn_softmax_xent(graph_t *graph, const char *name, int logits, int labels, double label_smoothing)
{
    op_desc_t desc = {.kind = OP_SOFTMAX_XENT, .n_inputs = 2, .attr.softmax_xent = {label_smoothing}};
    return graph_add(graph, name, desc, (const int[]){logits, labels}, NULL, NULL);
}

int nn_softmax_xent_rows(graph_t *graph, const char *name, int logits, int labels, int weights)
{
    op_desc_t desc = {.kind = OP_SOFTMAX_XENT, .n_inputs = 3};
    return graph_add(graph, name, desc, (const int[]){logits, labels, weights}, NULL, NULL);
}
