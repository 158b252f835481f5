/* SPDX-License-Identifier: MIT */
/* The fully connected layers of model builders, with bias; the input is flattened. */
#include "compute/graph/layers.h"

static int linear(graph_t *graph, const char *name, int input, int64_t features, init_kind_t weight,
                  init_kind_t bias)
{
    const graph_param_spec_t params[] = {{"weight", "OI", weight}, {"bias", "O", bias}};
    op_desc_t desc = {.kind = OP_LINEAR,
                      .compute = graph->compute,
                      .n_inputs = 1,
                      .attr.linear = {.out_features = features, .has_bias = true}};
    return graph_add(graph, name, desc, &input, params, NULL);
}

int nn_linear(graph_t *graph, const char *name, int input, int64_t features)
{
    return linear(graph, name, input, features, INIT_DEFAULT, INIT_DEFAULT);
}

int nn_linear_init(graph_t *graph, const char *name, int input, int64_t features, init_kind_t init)
{
    return linear(graph, name, input, features, init, INIT_ZERO);
}
