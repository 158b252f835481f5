/* SPDX-License-Identifier: MIT */
/* The ReLU layer of model builders. Fusing it into its producer is left to fuse.c. */
#include "compute/graph/layers.h"

int nn_relu(graph_t *graph, const char *name, int input)
{
    op_desc_t desc = {.kind = OP_RELU, .n_inputs = 1};
    return graph_add(graph, name, desc, &input, NULL, NULL);
}
