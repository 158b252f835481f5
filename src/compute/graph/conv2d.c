/* SPDX-License-Identifier: MIT */
/* The convolution layer of model builders: square kernels, with the usual defaults for what a builder leaves
 * 0. */
#include "compute/graph/layers.h"

static int or_one(int value)
{
    return value ? value : 1;
}

int nn_conv2d(graph_t *graph, const char *name, int input, conv2d_layer_t layer)
{
    const graph_param_spec_t params[] = {{"weight", "OHWI", layer.init}, {"bias", "O", layer.bias_init}};
    int stride = or_one(layer.stride), dilation = or_one(layer.dilation);
    op_desc_t desc = {.kind = OP_CONV2D,
                      .compute = graph->compute,
                      .n_inputs = 1,
                      .attr.conv2d = {.out_channels = layer.channels,
                                      .kernel_h = layer.kernel,
                                      .kernel_w = layer.kernel,
                                      .stride_h = stride,
                                      .stride_w = stride,
                                      .pad_h = layer.pad,
                                      .pad_w = layer.pad,
                                      .dilation_h = dilation,
                                      .dilation_w = dilation,
                                      .groups = or_one(layer.groups),
                                      .has_bias = !layer.no_bias}};
    return graph_add(graph, name, desc, &input, params, NULL);
}
