/* Layers: what a model's builder calls. Each adds one operator to the graph and says how its parameters
 * start. All return the output value. One layer per file, named as its operator. */
#ifndef COMPUTE_GRAPH_LAYERS_H
#define COMPUTE_GRAPH_LAYERS_H

#include "compute/graph/graph.h"

/* Fields left 0 take their usual value: stride 1, dilation 1, groups 1. */
typedef struct conv2d_layer {
    int64_t channels; /* out */
    int kernel, stride, pad, dilation, groups;
    bool no_bias;
    init_kind_t init; /* of the weight */
} conv2d_layer_t;
int nn_conv2d(graph_t *graph, const char *name, int input, conv2d_layer_t layer);

int nn_linear(graph_t *graph, const char *name, int input, int64_t features);
/* With another start of the weight than LeCun's. */
int nn_linear_init(graph_t *graph, const char *name, int input, int64_t features, init_kind_t init);

/* stride 0: as the kernel. */
typedef struct pool2d_layer {
    int kernel, stride, pad;
} pool2d_layer_t;
int nn_max_pool(graph_t *graph, const char *name, int input, pool2d_layer_t layer);
int nn_avg_pool(graph_t *graph, const char *name, int input, pool2d_layer_t layer);
int nn_global_avg_pool(graph_t *graph, const char *name, int input);
/* To at most side × side cells: a dimension that has more is averaged over windows of equal size and stride
 * that reach from edge to edge (where `side` divides it, what PyTorch's AdaptiveAvgPool2d does; elsewhere
 * that one's windows differ in size); one that has fewer stays. Adds no layer, and returns its input, where
 * both stay. */
int nn_avg_pool_to(graph_t *graph, const char *name, int input, int side);

int nn_relu(graph_t *graph, const char *name, int input);
int nn_dropout(graph_t *graph, const char *name, int input, double rate);
int nn_add(graph_t *graph, const char *name, int input_a, int input_b);
/* Momentum 0.1 and epsilon 1e-5, as PyTorch's BatchNorm2d. */
int nn_batch_norm(graph_t *graph, const char *name, int input);
/* With γ from 0: at the end of a residual branch, so that blocks start as the identity (Goyal et al.,
 * "Accurate, large minibatch SGD", 2017, section 5.1). */
int nn_batch_norm_zero(graph_t *graph, const char *name, int input);

/* The loss; the last layer of a graph. */
int nn_softmax_xent(graph_t *graph, const char *name, int input, double label_smoothing);
int nn_sigmoid_bce(graph_t *graph, const char *name, int input);

#endif
