/* SPDX-License-Identifier: MIT */
/* The loss of sampled anchors, and of masks in the channel of their class. */
#include "compute/graph/layers.h"

int nn_sigmoid_bce_at(graph_t *graph, const char *name, selected_layer_t in)
{
    op_desc_t desc = {.kind = OP_SIGMOID_BCE_AT, .n_inputs = in.targets < 0 ? 3 : 4};
    return graph_add(graph, name, desc, (const int[]){in.predictions, in.labels, in.weights, in.targets},
                     NULL, NULL);
}
