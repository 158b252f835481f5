/* SPDX-License-Identifier: MIT */
/* The batch norm layers of model builders: parameter and state names, their initial values, PyTorch's
 * momentum. */
#include "compute/graph/layers.h"

static int norm(graph_t *graph, const char *name, int input, init_kind_t gamma)
{
    bool frozen = graph_freezes(graph, name);
    const graph_param_spec_t params[] = {{"gamma", "C", gamma}, {"beta", "C", INIT_ZERO}};
    static const graph_param_spec_t states[] = {{"running_mean", "C", INIT_ZERO},
                                                {"running_var", "C", INIT_ONE}};
    op_desc_t desc = {.kind = OP_BATCH_NORM,
                      .n_inputs = 1,
                      .attr.batch_norm = {.momentum = 0.1,
                                          .epsilon = graph->norm_epsilon,
                                          .group = frozen ? 0 : graph->norm_group,
                                          .frozen = frozen}};
    return graph_add(graph, name, desc, &input, params, states);
}

int nn_batch_norm(graph_t *graph, const char *name, int input)
{
    return graph->frozen_norms ? nn_frozen_norm(graph, name, input) : norm(graph, name, input, INIT_ONE);
}

int nn_batch_norm_zero(graph_t *graph, const char *name, int input)
{
    const bool frozen = graph->frozen_norms || graph_freezes(graph, name);
    return frozen ? nn_frozen_norm(graph, name, input) : norm(graph, name, input, INIT_ZERO);
}

int nn_frozen_norm(graph_t *graph, const char *name, int input)
{
    bool frozen = graph->frozen;
    graph->frozen = true;
    int value = norm(graph, name, input, INIT_ONE);
    graph->frozen = frozen;
    return value;
}
