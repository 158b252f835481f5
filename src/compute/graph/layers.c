/* SPDX-License-Identifier: MIT */
/* The layers of model builders, in the order of ops/list.h: each adds one operator with the usual defaults, the
 * names of its parameters and their initial values. */
#include "compute/graph/layers.h"

#include <string.h>

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

static int pool(graph_t *graph, const char *name, int input, pool_mode_t mode, pool2d_layer_t layer)
{
    int stride = layer.stride ? layer.stride : layer.kernel;
    op_desc_t desc = {
        .kind = OP_POOL2D,
        .n_inputs = 1,
        .attr.pool2d = {mode, layer.kernel, layer.kernel, stride, stride, layer.pad, layer.pad},
    };
    return graph_add(graph, name, desc, &input, NULL, NULL);
}

int nn_max_pool(graph_t *graph, const char *name, int input, pool2d_layer_t layer)
{
    return pool(graph, name, input, POOL_MAX, layer);
}

int nn_avg_pool(graph_t *graph, const char *name, int input, pool2d_layer_t layer)
{
    return pool(graph, name, input, POOL_AVG, layer);
}

int nn_global_avg_pool(graph_t *graph, const char *name, int input)
{
    shape_t x = graph_shape(graph, input);
    op_desc_t desc = {.kind = OP_POOL2D, .n_inputs = 1};
    if (x.n_dims == 4)
        desc.attr.pool2d = (pool2d_attr_t){POOL_AVG, narrow_int(x.dim[1]), narrow_int(x.dim[2]), 1, 1, 0, 0};
    return graph_add(graph, name, desc, &input, NULL, NULL);
}

/* Stride and kernel along one dimension. */
static void fit_window(int64_t in, int side, int *stride, int *kernel)
{
    int n = narrow_int(in);
    *stride = n > side ? n / side : 1;
    *kernel = n > side ? n - (side - 1) * *stride : 1;
}

int nn_avg_pool_to(graph_t *graph, const char *name, int input, int side)
{
    shape_t x = graph_shape(graph, input);
    op_desc_t desc = {.kind = OP_POOL2D, .n_inputs = 1, .attr.pool2d = {.mode = POOL_AVG}};
    if (x.n_dims == 4) {
        if (x.dim[1] <= side && x.dim[2] <= side) return input;
        fit_window(x.dim[1], side, &desc.attr.pool2d.stride_h, &desc.attr.pool2d.kernel_h);
        fit_window(x.dim[2], side, &desc.attr.pool2d.stride_w, &desc.attr.pool2d.kernel_w);
    }
    return graph_add(graph, name, desc, &input, NULL, NULL);
}

int nn_relu(graph_t *graph, const char *name, int input)
{
    op_desc_t desc = {.kind = OP_RELU, .n_inputs = 1};
    return graph_add(graph, name, desc, &input, NULL, NULL);
}

int nn_dropout(graph_t *graph, const char *name, int input, double rate)
{
    op_desc_t desc = {.kind = OP_DROPOUT, .n_inputs = 1, .attr.dropout = {rate}};
    return graph_add(graph, name, desc, &input, NULL, NULL);
}

int nn_add(graph_t *graph, const char *name, int input_a, int input_b)
{
    op_desc_t desc = {.kind = OP_ADD, .n_inputs = 2};
    return graph_add(graph, name, desc, (const int[]){input_a, input_b}, NULL, NULL);
}

static int norm(graph_t *graph, graph_norm_t kind, const char *name, int input, init_kind_t gamma)
{
    const bool group = kind == GRAPH_NORM_GROUP, was_frozen = graph->frozen;
    graph->frozen = was_frozen || kind == GRAPH_NORM_FROZEN;
    const bool frozen = graph_freezes(graph, name);
    const graph_param_spec_t params[] = {{"gamma", "C", frozen && !group ? INIT_ONE : gamma},
                                         {"beta", "C", INIT_ZERO}};
    static const graph_param_spec_t states[] = {{"running_mean", "C", INIT_ZERO},
                                                {"running_var", "C", INIT_ONE}};
    op_desc_t desc = {.kind = group ? OP_GROUP_NORM : OP_BATCH_NORM, .n_inputs = 1};
    if (group)
        desc.attr.group_norm = (group_norm_attr_t){.epsilon = graph->norm_epsilon, .groups = NN_NORM_GROUPS};
    else
        desc.attr.batch_norm = (batch_norm_attr_t){.momentum = 0.1,
                                                   .epsilon = graph->norm_epsilon,
                                                   .group = frozen ? 0 : graph->norm_group,
                                                   .frozen = frozen};
    const int value = graph_add(graph, name, desc, &input, params, group ? NULL : states);
    graph->frozen = was_frozen;
    return value;
}

int nn_norm(graph_t *graph, const char *name, int input)
{
    return norm(graph, graph->norm, name, input, INIT_ONE);
}

int nn_norm_zero(graph_t *graph, const char *name, int input)
{
    return norm(graph, graph->norm, name, input, INIT_ZERO);
}

int nn_frozen_norm(graph_t *graph, const char *name, int input)
{
    return norm(graph, GRAPH_NORM_FROZEN, name, input, INIT_ONE);
}

int nn_softmax_xent(graph_t *graph, const char *name, int logits, int labels, double label_smoothing)
{
    op_desc_t desc = {.kind = OP_SOFTMAX_XENT, .n_inputs = 2, .attr.softmax_xent = {label_smoothing}};
    return graph_add(graph, name, desc, (const int[]){logits, labels}, NULL, NULL);
}

int nn_softmax_xent_rows(graph_t *graph, const char *name, int logits, int labels, int weights)
{
    op_desc_t desc = {.kind = OP_SOFTMAX_XENT, .n_inputs = 3};
    return graph_add(graph, name, desc, (const int[]){logits, labels, weights}, NULL, NULL);
}

int nn_sigmoid_bce(graph_t *graph, const char *name, int logits, int targets)
{
    op_desc_t desc = {.kind = OP_SIGMOID_BCE, .n_inputs = 2};
    return graph_add(graph, name, desc, (const int[]){logits, targets}, NULL, NULL);
}

int nn_upsample_add(graph_t *graph, const char *name, int input_a, int input_b)
{
    op_desc_t desc = {.kind = OP_UPSAMPLE_ADD, .n_inputs = 2};
    return graph_add(graph, name, desc, (const int[]){input_a, input_b}, NULL, NULL);
}

int nn_smooth_l1(graph_t *graph, const char *name, selected_layer_t in, smooth_l1_attr_t attr)
{
    op_desc_t desc = {.kind = OP_SMOOTH_L1, .n_inputs = 4, .attr.smooth_l1 = attr};
    return graph_add(graph, name, desc, (const int[]){in.predictions, in.labels, in.weights, in.targets},
                     NULL, NULL);
}

int nn_sigmoid_bce_at(graph_t *graph, const char *name, selected_layer_t in)
{
    op_desc_t desc = {.kind = OP_SIGMOID_BCE_AT, .n_inputs = in.targets < 0 ? 3 : 4};
    return graph_add(graph, name, desc, (const int[]){in.predictions, in.labels, in.weights, in.targets},
                     NULL, NULL);
}

int nn_deconv2d(graph_t *graph, const char *name, int input, int64_t channels, int kernel)
{
    const graph_param_spec_t params[] = {{"weight", "HWOI", INIT_KAIMING_OUT}, {"bias", "O", INIT_DEFAULT}};
    op_desc_t desc = {
        .kind = OP_DECONV2D,
        .n_inputs = 1,
        .attr.deconv2d = {.out_channels = channels, .kernel = kernel, .has_bias = true},
    };
    return graph_add(graph, name, desc, &input, params, NULL);
}

int nn_roi_align(graph_t *graph, const char *name, const int *levels, int regions, roi_align_attr_t attr)
{
    op_desc_t desc = {.kind = OP_ROI_ALIGN, .n_inputs = ROI_ALIGN_LEVELS + 1, .attr.roi_align = attr};
    int inputs[ROI_ALIGN_LEVELS + 1];
    memcpy(inputs, levels, ROI_ALIGN_LEVELS * sizeof *levels);
    inputs[ROI_ALIGN_LEVELS] = regions;
    return graph_add(graph, name, desc, inputs, NULL, NULL);
}
