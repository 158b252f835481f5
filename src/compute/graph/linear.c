/* SPDX-License-Identifier: MIT */
/* The fully connected layers of model builders, with bias; the input is flattened. */
#include "compute/graph/layers.h"

int nn_linear(graph_t *graph, const char *name, int input, int64_t features)
{
    return nn_linear_init(graph, name, input, features, INIT_LECUN);
}

int nn_linear_init(graph_t *graph, const char *name, int input, int64_t features, init_kind_t init)
{
    const graph_param_spec_t params[] = {{"weight", "OI", init}, {"bias", "O", INIT_ZERO}};
    op_desc_t desc = {.kind = OP_LINEAR,
                      .compute = graph->compute,
                      .n_inputs = 1,
                      .attr.linear = {.out_features = features, .has_bias = true}};
    return graph_add(graph, name, desc, &input, params, NULL);
}
