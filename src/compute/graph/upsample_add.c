/* SPDX-License-Identifier: MIT */
/* The layer of model builders that adds an enlarged coarse map to a fine one. */
#include "compute/graph/layers.h"

int nn_upsample_add(graph_t *graph, const char *name, int input_a, int input_b)
{
    op_desc_t desc = {.kind = OP_UPSAMPLE_ADD, .n_inputs = 2};
    return graph_add(graph, name, desc, (const int[]){input_a, input_b}, NULL, NULL);
}
