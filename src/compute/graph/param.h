/* SPDX-License-Identifier: MIT */
/* Parameters and states of a graph's layers: names, shapes, initial values, places in the flat buffers. */
#ifndef COMPUTE_GRAPH_PARAM_H
#define COMPUTE_GRAPH_PARAM_H

#include <stdbool.h>
#include <stdint.h>

#include "compute/tensor/tensor.h"

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

#endif
