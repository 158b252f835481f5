/* SPDX-License-Identifier: MIT */
/* The convolutional network of Keras's MNIST example, which Horovod's advanced MNIST example trains, with and
 * without batch norm. */
#include "compute/graph/layers.h"
#include "compute/models/builders.h"

static void build_cnn(graph_t *g, const model_options_t *options, bool norm)
{
    conv2d_layer_t conv1 = {.channels = 32, .kernel = 3, .no_bias = norm};
    conv2d_layer_t conv2 = {.channels = 64, .kernel = 3, .no_bias = norm};
    int v = nn_conv2d(g, "conv1", 0, conv1);
    if (norm) v = nn_norm(g, "norm1", v);
    v = nn_relu(g, "relu1", v);
    v = nn_conv2d(g, "conv2", v, conv2);
    if (norm) v = nn_norm(g, "norm2", v);
    v = nn_relu(g, "relu2", v);
    v = nn_max_pool(g, "pool", v, (pool2d_layer_t){.kernel = 2});
    v = nn_dropout(g, "drop1", v, 0.25);
    v = nn_linear(g, "fc1", v, 128);
    if (norm) v = nn_norm(g, "norm3", v);
    v = nn_relu(g, "relu3", v);
    v = nn_dropout(g, "drop2", v, 0.5);
    v = nn_linear(g, "fc2", v, options->n_classes);
    model_add_loss(g, options, v);
}

void build_mnist_cnn(graph_t *g, const model_options_t *options)
{
    build_cnn(g, options, false);
}

/* Convolutions have no bias: batch norm adds one. */
void build_mnist_cnn_bn(graph_t *g, const model_options_t *options)
{
    build_cnn(g, options, true);
}
