/* SPDX-License-Identifier: MIT */
/* The loss of box regression. */
#include "compute/graph/layers.h"

int nn_smooth_l1(graph_t *graph, const char *name, selected_layer_t in, smooth_l1_attr_t attr)
{
    op_desc_t desc = {.kind = OP_SMOOTH_L1, .n_inputs = 4, .attr.smooth_l1 = attr};
    return graph_add(graph, name, desc, (const int[]){in.predictions, in.labels, in.weights, in.targets},
                     NULL, NULL);
}
