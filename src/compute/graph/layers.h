/* SPDX-License-Identifier: MIT */
/* Layers for model builders. Each function adds one operator to the graph, sets how its parameters are
 * initialized, and returns its output value. */
#ifndef COMPUTE_GRAPH_LAYERS_H
#define COMPUTE_GRAPH_LAYERS_H

#include "compute/graph/graph.h"

/* Fields left 0 have defaults: stride 1, dilation 1, groups 1. */
typedef struct conv2d_layer {
    int64_t channels; /* of the output */
    int kernel, stride, pad, dilation, groups;
    bool no_bias;
    init_kind_t init, bias_init;
} conv2d_layer_t;
int nn_conv2d(graph_t *graph, const char *name, int input, conv2d_layer_t layer);

/* A transposed convolution whose stride is its kernel. The weight begins as INIT_KAIMING_OUT. */
int nn_deconv2d(graph_t *graph, const char *name, int input, int64_t channels, int kernel);

/* levels: four values, with strides of 4, 8, 16 and 32 pixels; the rest as in roi_align_attr_t. */
int nn_roi_align(graph_t *graph, const char *name, const int *levels, int regions, roi_align_attr_t attr);

int nn_linear(graph_t *graph, const char *name, int input, int64_t features);
/* With the weight's initial values instead of PyTorch's, and a bias that begins at 0. */
int nn_linear_init(graph_t *graph, const char *name, int input, int64_t features, init_kind_t init);

/* stride 0: equal to the kernel. */
typedef struct pool2d_layer {
    int kernel, stride, pad;
} pool2d_layer_t;
int nn_max_pool(graph_t *graph, const char *name, int input, pool2d_layer_t layer);
int nn_avg_pool(graph_t *graph, const char *name, int input, pool2d_layer_t layer);
int nn_global_avg_pool(graph_t *graph, const char *name, int input);
/* Averages down to at most side × side pixels. A larger dimension is averaged over windows of equal size and
 * stride that reach from edge to edge; a smaller one is kept. This equals PyTorch's AdaptiveAvgPool2d if
 * `side` divides the dimension; otherwise PyTorch's windows differ in size. If both dimensions are kept, adds
 * no layer and returns `input`. */
int nn_avg_pool_to(graph_t *graph, const char *name, int input, int side);

int nn_relu(graph_t *graph, const char *name, int input);
int nn_dropout(graph_t *graph, const char *name, int input, double rate);
int nn_add(graph_t *graph, const char *name, int input_a, int input_b);
/* y = a + b enlarged to twice its height and width. */
int nn_upsample_add(graph_t *graph, const char *name, int input_a, int input_b);
/* What graph->norm says, with graph->norm_epsilon. Batch norm: momentum 0.1, as in PyTorch's BatchNorm2d. Group norm: with
 * NN_NORM_GROUPS groups, as in Detectron2. */
enum { NN_NORM_GROUPS = 32 };
int nn_norm(graph_t *graph, const char *name, int input);
/* Batch norm with γ, β and running values that do not change: batch_norm_attr_t.frozen. */
int nn_frozen_norm(graph_t *graph, const char *name, int input);
/* With γ initially 0, for the end of a residual branch: blocks then start as the identity (Goyal et al.,
 * "Accurate, large minibatch SGD", 2017, section 5.1). Of frozen batch norm, 1. */
int nn_norm_zero(graph_t *graph, const char *name, int input);

/* Losses. The predictions of softmax_xent are the value after the one that is returned. */
int nn_softmax_xent(graph_t *graph, const char *name, int logits, int labels, double label_smoothing);
int nn_sigmoid_bce(graph_t *graph, const char *name, int logits, int targets);
/* Of rows, each with a weight. */
int nn_softmax_xent_rows(graph_t *graph, const char *name, int logits, int labels, int weights);

/* Losses of the entries that a label selects. */
typedef struct selected_layer {
    int predictions, labels, weights;
    int targets; /* -1: the labels are the targets */
} selected_layer_t;
int nn_smooth_l1(graph_t *graph, const char *name, selected_layer_t inputs, smooth_l1_attr_t attr);
int nn_sigmoid_bce_at(graph_t *graph, const char *name, selected_layer_t inputs);

#endif
