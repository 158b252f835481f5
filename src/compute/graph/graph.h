/* SPDX-License-Identifier: MIT */
/* The static graph of a model: named layers, their operators, parameters and connections. A model's builder
 * (models/) builds it once; after that it is read-only. Not collective.
 *
 * Value 0 is the input; value i is the output of layer i−1; GRAPH_TRUTH is what a loss compares with, labels
 * or targets. Builders do not check for errors: the graph keeps the first one, later calls do nothing, and
 * graph_finish returns it. Shapes are inferred for one sample. */
#ifndef COMPUTE_GRAPH_GRAPH_H
#define COMPUTE_GRAPH_GRAPH_H

#include <stdint.h>

#include "compute/ops/op.h"

enum { GRAPH_TRUTH = -1 };
enum { GRAPH_NAME_MAX = 32, GRAPH_FUSED_NAME_MAX = 96, GRAPH_PARAM_NAME_MAX = 48 };

/* Initial values of a parameter.
 *
 *   LeCun    normal with variance 1 / fan_in (LeCun et al., "Efficient BackProp", 1998); with unit-variance
 *            input it keeps the logits small, so that a high learning rate works from the first step
 *   Kaiming  normal with variance 2 / fan, for layers followed by a ReLU (He et al., "Delving deep into
 *            rectifiers", 2015, equations 10 and 14): fan_in preserves the size of values in forward,
 *            fan_out that of gradients in backward */
typedef enum init_kind {
    INIT_LECUN, /* the default */
    INIT_ZERO,
    INIT_ONE,
    INIT_KAIMING_IN,
    INIT_KAIMING_OUT
} init_kind_t;

typedef struct graph_param {
    char name[GRAPH_PARAM_NAME_MAX]; /* such as "conv1/weight" */
    const char *meaning;             /* order of dimensions, such as "OHWI" */
    shape_t shape;
    init_kind_t init;
    int64_t fan_in, fan_out; /* of weights: terms per output, outputs per input at stride 1 */
    int64_t offset;          /* elements from the start of the flat buffer; a multiple of 16 */
} graph_param_t;

typedef struct graph_node {
    char name[GRAPH_FUSED_NAME_MAX]; /* "conv1"; fused: "conv1+relu1+pool1" */
    int layer;                       /* index in the model's graph; fused: of its first layer */
    op_desc_t desc;                  /* for one sample */
    int input[OP_MAX_INPUTS];
    int first_param, first_state; /* indices into graph->params, graph->states; counts are in desc */
} graph_node_t;

typedef struct graph {
    char model[GRAPH_NAME_MAX];
    shape_t sample; /* [1, h, w, c] */
    int n_classes;
    int64_t norm_group; /* batch_norm_attr_t.group of layers added later; 0 after graph_new */
    dtype_t compute;    /* op_desc_t.compute of layers added later; DTYPE_F32 after graph_new */
    int n_nodes, n_params, n_states;
    graph_node_t *nodes;
    /* Flat order: gradients that backward finishes first come first, so that a bucket of gradients is a
     * range. States (running values of batch norm) have their own flat buffer. */
    graph_param_t *params, *states;
    int64_t n_flat_params, n_flat_states; /* elements, padding included */
    int64_t n_parameters;                 /* without padding */
    err_t status;
    err_info_t first_error;
} graph_t;

/* sample  [height, width, channels] */
err_t graph_new(const char *model, shape_t sample, int n_classes, graph_t **out);
void graph_free(graph_t **graph);

/* Describes one parameter of a layer, in the operator's order. */
typedef struct graph_param_spec {
    const char *name, *meaning;
    init_kind_t init;
} graph_param_spec_t;

/* Adds a layer and returns its output value. An error names the layer and the shapes.
 *
 *   desc    kind, dtype and attributes, and the shape of an input that is GRAPH_TRUTH; other shapes are
 *           inferred
 *   inputs  values, as many as the operator has inputs
 *   params, states  in the operator's order; NULL if it has none */
int graph_add(graph_t *graph, const char *name, op_desc_t desc, const int *inputs,
              const graph_param_spec_t *params, const graph_param_spec_t *states);

/* Lays out the flat buffers. The last layer must be a loss, and some layer must read every other value.
 * ERR_USAGE if a layer did not fit. */
err_t graph_finish(graph_t *graph);

/* Whether samples may have any number of classes (the loss is OP_SIGMOID_BCE). */
bool graph_multi_label(const graph_t *graph);

/* Shape of a value for one sample. */
shape_t graph_shape(const graph_t *graph, int value);

/* The operator of layer `node` for a batch of n, shapes inferred. */
err_t graph_batch_desc(const graph_t *graph, int node, int64_t n, op_desc_t *out);

/* Number of layer inputs that a value feeds. */
int graph_readers(const graph_t *graph, int value);

/* Sets initial parameters and states. They depend on the seed only, not on the machine or the number of
 * ranks. */
void graph_init(const graph_t *graph, uint64_t seed, float *params, float *states);

#endif
