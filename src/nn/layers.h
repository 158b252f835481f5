/* Layers: what a model's builder calls. Each adds one operator to the graph and says how its parameters
 * start. All return the output value. One layer per file, named as its operator. */
#ifndef NN_LAYERS_H
#define NN_LAYERS_H

#include "nn/graph.h"

/* Fields left 0 take their usual value: stride 1, dilation 1, groups 1. */
typedef struct conv2d_layer {
    int64_t channels; /* out */
    int kernel, stride, pad, dilation, groups;
    bool no_bias;
} conv2d_layer_t;
int nn_conv2d(graph_t *graph, const char *name, int input, conv2d_layer_t layer);

int nn_linear(graph_t *graph, const char *name, int input, int64_t features);

/* stride 0: as the kernel. */
typedef struct pool2d_layer {
    int kernel, stride, pad;
} pool2d_layer_t;
int nn_max_pool(graph_t *graph, const char *name, int input, pool2d_layer_t layer);
int nn_avg_pool(graph_t *graph, const char *name, int input, pool2d_layer_t layer);
int nn_global_avg_pool(graph_t *graph, const char *name, int input);

int nn_relu(graph_t *graph, const char *name, int input);
int nn_dropout(graph_t *graph, const char *name, int input, double rate);
int nn_add(graph_t *graph, const char *name, int input_a, int input_b);
int nn_batch_norm(graph_t *graph, const char *name, int input);

/* The loss; the last layer of a graph. */
int nn_softmax_xent(graph_t *graph, const char *name, int input, double label_smoothing);

#endif
