/* The static graph of a model: named layers, their operators, parameters and connections. Built once by a
 * model's builder (models/), then only read. Not collective.
 *
 * Value 0 is the input; value i is the output of layer i−1. Builders ignore errors: the first one is kept,
 * later calls do nothing, and graph_finish returns it. Shapes are inferred for one sample. */
#ifndef COMPUTE_GRAPH_GRAPH_H
#define COMPUTE_GRAPH_GRAPH_H

#include <stdint.h>

#include "compute/ops/op.h"

enum { GRAPH_NAME_MAX = 32, GRAPH_FUSED_NAME_MAX = 96, GRAPH_PARAM_NAME_MAX = 48 };

/* How a parameter starts. LeCun: normal with variance 1 / fan_in (LeCun et al., "Efficient BackProp", 1998);
 * with unit-variance input it keeps the logits small, so that a high learning rate works from the first step.
 * Kaiming: normal with variance 2 / fan, for what a ReLU follows (He et al., "Delving deep into rectifiers",
 * 2015, equations 10 and 14): by fan_in values keep their size on their way forward, by fan_out gradients on
 * their way back. */
typedef enum init_kind {
    INIT_LECUN, /* what layers take that say nothing */
    INIT_ZERO,
    INIT_ONE,
    INIT_KAIMING_IN,
    INIT_KAIMING_OUT
} init_kind_t;

typedef struct graph_param {
    char name[GRAPH_PARAM_NAME_MAX]; /* "conv1/weight" */
    const char *meaning;             /* order of the dimensions: "OHWI" */
    shape_t shape;
    init_kind_t init;
    int64_t fan_in,
        fan_out;    /* of weights: terms in an output's sum, and outputs that an input is in, at stride 1 */
    int64_t offset; /* in the flat buffer, elements; a multiple of 16 */
} graph_param_t;

typedef struct graph_node {
    char name[GRAPH_FUSED_NAME_MAX]; /* "conv1", fused "conv1+relu1+pool1" */
    int layer;                       /* number in the model's graph, of a fused node that of its first */
    op_desc_t desc;                  /* for a batch of one */
    int input[OP_MAX_INPUTS];
    int first_param, first_state; /* into graph->params, graph->states; counts are in desc */
} graph_node_t;

typedef struct graph {
    char model[GRAPH_NAME_MAX];
    shape_t sample; /* [1, h, w, c] */
    int n_classes;
    int64_t norm_group; /* batch_norm_attr_t.group of layers to come; 0 after graph_new */
    dtype_t compute;    /* op_desc_t.compute of layers to come; DTYPE_F32 after graph_new */
    int n_nodes, n_params, n_states;
    graph_node_t *nodes;
    /* Flat order: the gradients that backward finishes first come first, so that a bucket of gradients is a
     * range. States (batch norm's running values) have a flat buffer of their own. */
    graph_param_t *params, *states;
    int64_t n_flat_params, n_flat_states; /* elements, padding included */
    int64_t n_parameters;                 /* without padding */
    err_t status;
    err_info_t first_error;
} graph_t;

/* sample: [height, width, channels]. */
err_t graph_new(const char *model, shape_t sample, int n_classes, graph_t **out);
void graph_free(graph_t **graph);

/* What a layer says of its parameters, in the operator's order. */
typedef struct graph_param_spec {
    const char *name, *meaning;
    init_kind_t init;
} graph_param_spec_t;

/* Adds a layer and returns its output value. desc: kind, dtype and attributes; shapes are inferred. An error
 * names the layer and the shapes. */
int graph_add(graph_t *graph, const char *name, op_desc_t desc, const int *inputs,
              const graph_param_spec_t *params, const graph_param_spec_t *states);

/* Lays out the flat buffers. ERR_USAGE when a layer did not fit. The last layer must be a loss, and every
 * other value must be read. */
err_t graph_finish(graph_t *graph);

/* Whether the loss is of samples with any number of classes each (OP_SIGMOID_BCE). */
bool graph_multi_label(const graph_t *graph);

/* Shape of a value for one sample. */
shape_t graph_shape(const graph_t *graph, int value);

/* The operator of layer `node` for a batch of n, shapes inferred. */
err_t graph_batch_desc(const graph_t *graph, int node, int64_t n, op_desc_t *out);

/* How many inputs of layers a value feeds. */
int graph_readers(const graph_t *graph, int value);

/* Initial parameters and states, the same for a seed on every machine and rank count. */
void graph_init(const graph_t *graph, uint64_t seed, float *params, float *states);

#endif
