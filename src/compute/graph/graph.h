/* SPDX-License-Identifier: MIT */
/* The static graph of a model: named inputs, layers with their operators and parameters, named outputs,
 * losses. A model's builder (models/) builds it once; after that it is read-only. Not collective.
 *
 * A value is an input of the graph or an output of a layer. Its shape is that of one sample: the first
 * dimension is 1, in a batch n. The objective, of which backward computes the gradient, is the sum of all
 * losses, each times its weight and the batch's loss_scale.
 *
 * Builders do not check for errors: the graph keeps the first one, later calls do nothing, and graph_finish
 * returns it. */
#ifndef COMPUTE_GRAPH_GRAPH_H
#define COMPUTE_GRAPH_GRAPH_H

#include <stdbool.h>
#include <stdint.h>

#include "compute/ops/op.h"

/* Names of up to 64 characters; those of parameters are such as "conv1/running_mean". */
enum { GRAPH_NAME_MAX = 65, GRAPH_PARAM_NAME_MAX = GRAPH_NAME_MAX + 15 };

/* Initial values of a parameter, those of PyTorch and torchvision. Fans are the weight's, also for the bias.
 *
 *   default      uniform in ±1 / √fan_in, weights and biases: PyTorch's Linear, Conv2d, ConvTranspose2d
 *   Kaiming out  normal with variance 2 / fan_out, which preserves the size of gradients through layers followed by a
 *                ReLU (He et al., "Delving deep into rectifiers", 2015, equation 14): kaiming_normal_ with fan_out
 *   Kaiming in   uniform in ±√(3 / fan_in), variance 1 / fan_in, for layers without a ReLU: kaiming_uniform_ with a = 1
 *   small        normal with standard deviation 0.01 */
typedef enum init_kind {
    INIT_DEFAULT,
    INIT_ZERO,
    INIT_ONE,
    INIT_KAIMING_OUT,
    INIT_KAIMING_IN,
    INIT_SMALL
} init_kind_t;

typedef struct graph_param {
    char name[GRAPH_PARAM_NAME_MAX]; /* such as "conv1/weight" */
    const char *meaning;             /* order of dimensions, such as "OHWI" */
    shape_t shape;
    init_kind_t init;
    int64_t fan_in, fan_out; /* of the layer's weight, as PyTorch counts */
    bool frozen;             /* has no gradient */
    int64_t offset;          /* elements from the start of the flat buffer; a multiple of 16 */
} graph_param_t;

/* Describes one parameter of a layer, in the operator's order. */
typedef struct graph_param_spec {
    const char *name, *meaning;
    init_kind_t init;
} graph_param_spec_t;

enum { GRAPH_FUSED_NAME_MAX = 160, GRAPH_MAX_INPUTS = 32, GRAPH_MAX_OUTPUTS = 32, GRAPH_MAX_SECTIONS = 4 };

typedef struct graph_value {
    shape_t shape;
    dtype_t dtype;
    int node;    /* the layer that computes it; -1: an input of the graph, or fused away */
    int section; /* whose rows its first dimension counts; 0: samples */
} graph_value_t;

/* A named input or output. */
typedef struct graph_port {
    char name[GRAPH_NAME_MAX];
    int value;
} graph_port_t;

/* Layers that work on rows (regions of images, say) instead of samples. How many rows there are is known only
 * at run time; they are computed `block` rows at a time. Section 0: samples. */
typedef struct graph_section {
    char name[GRAPH_NAME_MAX];
    int first_node;
    int64_t block, max_rows;
} graph_section_t;

typedef struct graph_node {
    char name[GRAPH_FUSED_NAME_MAX]; /* "conv1"; fused: "conv1+relu1+pool1" */
    int layer;                       /* index in the model's graph; fused: of its first layer */
    int section;
    op_desc_t desc; /* for one sample */
    int input[OP_MAX_INPUTS], output[OP_MAX_OUTPUTS];
    int first_param, first_state; /* indices into graph->params, graph->states; counts are in desc */
    bool shared;                  /* the parameters and states are those of an earlier layer */
    float weight;                 /* of a loss */
} graph_node_t;

/* What nn_norm adds: batch norm with constants instead of statistics, batch norm, or group norm. Default: of a model
 * (model_options_t), not of a graph. */
typedef enum graph_norm {
    GRAPH_NORM_DEFAULT,
    GRAPH_NORM_FROZEN,
    GRAPH_NORM_BATCH,
    GRAPH_NORM_GROUP
} graph_norm_t;

typedef struct graph {
    char model[GRAPH_NAME_MAX];
    /* Settings of layers added later; 0 after graph_new, but for norm and norm_epsilon. */
    int64_t norm_group;  /* batch_norm_attr_t.group */
    double norm_epsilon; /* batch_norm_attr_t.epsilon; 1e-5, as in PyTorch's BatchNorm2d */
    graph_norm_t norm;   /* GRAPH_NORM_BATCH */
    dtype_t compute;     /* op_desc_t.compute; DTYPE_F32 */
    bool frozen;         /* parameters are not trained */
    /* As frozen, for layers with these names, or whose names begin with one and a dot: "conv1,bn1,layer1".
     * NULL: none. Borrowed until graph_finish. */
    const char *freeze;
    int n_inputs, n_outputs, n_sections, n_values, n_nodes, n_params, n_states;
    graph_port_t inputs[GRAPH_MAX_INPUTS], outputs[GRAPH_MAX_OUTPUTS];
    graph_section_t sections[GRAPH_MAX_SECTIONS];
    graph_value_t *values;
    graph_node_t *nodes;
    /* Flat order: gradients that backward finishes first come first, so that a bucket of gradients is a
     * range; frozen parameters lie behind all others. States (running values of batch norm) have their own
     * flat buffer. */
    graph_param_t *params, *states;
    int64_t n_flat_params, n_flat_states; /* elements, padding included */
    int64_t n_flat_trained;               /* of n_flat_params, the part that has gradients */
    int64_t n_parameters, n_frozen;       /* all, and those that are not trained; without padding */
    err_t status;
    err_info_t first_error;
} graph_t;

err_t graph_new(const char *model, graph_t **out);
void graph_free(graph_t **graph);

/* Adds an input and returns its value. After graph_begin_rows it has a line per row.
 *
 *   shape  of one sample, without the first dimension: [height, width, channels]; none: a number */
int graph_input(graph_t *graph, const char *name, shape_t shape, dtype_t dtype);

/* Names a value, so that it can be read after forward (exec_results). Losses are outputs anyway, under the
 * name of their layer. */
void graph_output(graph_t *graph, const char *name, int value);

/* Adds a layer and returns its first output; the others follow it. An error names the layer and the shapes.
 *
 *   desc    kind, dtype and attributes; shapes are inferred
 *   inputs  values, as many as the operator has inputs
 *   params, states  in the operator's order; NULL if it has none */
int graph_add(graph_t *graph, const char *name, op_desc_t desc, const int *inputs,
              const graph_param_spec_t *params, const graph_param_spec_t *states);

/* Adds a layer with the operator, attributes and parameters of the layer `of`, of the same section. The
 * gradient of shared parameters is the sum over these layers. */
int graph_repeat(graph_t *graph, const char *name, const char *of, const int *inputs);

/* Multiplies a loss, given by its first output, by a weight; initially 1. */
void graph_weigh(graph_t *graph, int loss, float weight);

/* The number of losses among the first n layers. */
int graph_count_losses(const graph_t *graph, int n);

/* Whether a layer is batch norm over batches, not frozen to its running statistics. */
bool graph_has_batch_norm(const graph_t *graph);

/* Begins a section of rows: inputs and layers added later belong to it. Its layers read values of section 0
 * only through operators that take whole batches and give rows. A layer whose operator mixes samples (batch
 * norm in training) cannot be part of it.
 *
 *   block  on a GPU a multiple of 4: blocks then begin at multiples of 16 bytes, as products require */
void graph_begin_rows(graph_t *graph, const char *name, int64_t block, int64_t max_rows);

/* Whether the parameters of a layer of this name are frozen if it is added now. */
bool graph_freezes(const graph_t *graph, const char *name);

/* Lays out the flat buffers. Every layer must lead to an output, and every trained one to a loss. ERR_USAGE if
 * a layer did not fit, or `freeze` names one that there is not. */
err_t graph_finish(graph_t *graph);

/* Index of a named input or output; -1 if there is none. */
int graph_find_input(const graph_t *graph, const char *name);
int graph_find_output(const graph_t *graph, const char *name);

/* Shape of a value for one sample. */
shape_t graph_shape(const graph_t *graph, int value);

/* The operators of all layers, shapes inferred, for a batch of n.
 *
 *   inputs  [n_inputs] shapes of one sample, first dimension 1; NULL: those of the graph
 *   descs   [n_nodes]
 *
 * ERR_USAGE if a layer does not take these shapes, or would have other parameters. */
err_t graph_infer(const graph_t *graph, int64_t n, const shape_t *inputs, op_desc_t *descs);

/* The operator of layer `node` for a batch of n with the graph's shapes. */
err_t graph_batch_desc(const graph_t *graph, int node, int64_t n, op_desc_t *out);

/* Number of layer inputs that a value feeds, plus one if it is an output of the graph. */
int graph_readers(const graph_t *graph, int value);

/* The range of a layer's own parameters in the flat buffer, padding included; empty if it has none. */
void graph_flat_range(const graph_t *graph, int node, int64_t *offset, int64_t *count);

/* What a backward pass has to compute: gradients on the paths from trained parameters to losses, no others. */
typedef struct graph_needs {
    bool depends;           /* the layer, or one it depends on, is trained */
    bool leads;             /* a layer that reads it is part of backward */
    bool backward;          /* depends, and leads to a loss */
    bool dparam;            /* gradients of its parameters */
    bool dx[OP_MAX_INPUTS]; /* gradients of its inputs */
} graph_needs_t;

/* needs  [n_nodes], zero; free it with mem_free */
err_t graph_needs_new(const graph_t *graph, graph_needs_t **needs);

/* Sets initial parameters and states. They depend on the seed only, not on the machine or the number of
 * ranks. */
void graph_init(const graph_t *graph, uint64_t seed, float *params, float *states);

#endif
