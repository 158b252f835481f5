/* SPDX-License-Identifier: MIT */
/* The addition layer of model builders; its inputs must have equal shapes. */
#include "compute/graph/layers.h"

int nn_add(graph_t *graph, const char *name, int input_a, int input_b)
{
    op_desc_t desc = {.kind = OP_ADD, .n_inputs = 2};
    return graph_add(graph, name, desc, (const int[]){input_a, input_b}, NULL, NULL);
}
