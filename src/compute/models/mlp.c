/* SPDX-License-Identifier: MIT */
/* A plain multilayer perceptron: the smallest model that learns digits well, and the quickest to read. */
#include "compute/graph/layers.h"
#include "compute/models/builders.h"

void build_mlp(graph_t *g, const model_options_t *options)
{
    int v = nn_linear(g, "fc1", 0, 256);
    v = nn_relu(g, "relu1", v);
    v = nn_linear(g, "fc2", v, 128);
    v = nn_relu(g, "relu2", v);
    v = nn_linear(g, "fc3", v, options->n_classes);
    model_add_loss(g, options, v);
}
