/* SPDX-License-Identifier: MIT */
/* LeNet-5: LeCun, Bottou, Bengio, Haffner, "Gradient-based learning applied to document recognition", 1998,
 * in the variant made common by Caffe: ReLU, max pooling, 20 and 50 channels, 500 hidden units. */
#include "compute/graph/layers.h"
#include "compute/models/builders.h"

void build_lenet5(graph_t *g, const model_options_t *options)
{
    int v = nn_conv2d(g, "conv1", 0, (conv2d_layer_t){.channels = 20, .kernel = 5});
    v = nn_relu(g, "relu1", v);
    v = nn_max_pool(g, "pool1", v, (pool2d_layer_t){.kernel = 2});
    v = nn_conv2d(g, "conv2", v, (conv2d_layer_t){.channels = 50, .kernel = 5});
    v = nn_relu(g, "relu2", v);
    v = nn_max_pool(g, "pool2", v, (pool2d_layer_t){.kernel = 2});
    v = nn_linear(g, "fc1", v, 500);
    v = nn_relu(g, "relu3", v);
    v = nn_linear(g, "fc2", v, options->n_classes);
    model_add_loss(g, options, v);
}
