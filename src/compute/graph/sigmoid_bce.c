/* SPDX-License-Identifier: MIT */
/* The loss of models whose samples have any number of classes. */
#include "compute/graph/layers.h"

int nn_sigmoid_bce(graph_t *graph, const char *name, int logits, int targets)
{
    op_desc_t desc = {.kind = OP_SIGMOID_BCE, .n_inputs = 2};
    return graph_add(graph, name, desc, (const int[]){logits, targets}, NULL, NULL);
}
