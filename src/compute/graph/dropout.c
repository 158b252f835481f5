/* SPDX-License-Identifier: MIT */
/* The dropout layer of model builders. Its masks are drawn by the kernels. */
#include "compute/graph/layers.h"

int nn_dropout(graph_t *graph, const char *name, int input, double rate)
{
    op_desc_t desc = {.kind = OP_DROPOUT, .n_inputs = 1, .attr.dropout = {rate}};
    return graph_add(graph, name, desc, &input, NULL, NULL);
}
