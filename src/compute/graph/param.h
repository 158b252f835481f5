/* SPDX-License-Identifier: MIT */
/* Parameters and states of a graph's layers: names, shapes, initial values, places in the flat buffers. */
#ifndef COMPUTE_GRAPH_PARAM_H
#define COMPUTE_GRAPH_PARAM_H

#include <stdbool.h>
#include <stdint.h>

#include "compute/tensor/shape.h"

/* Names of up to 64 characters; those of parameters are such as "conv1/running_mean". */
enum { GRAPH_NAME_MAX = 65, GRAPH_PARAM_NAME_MAX = GRAPH_NAME_MAX + 15 };

/* Initial values of a parameter.
 *
 *   LeCun    normal with variance 1 / fan_in (LeCun et al., "Efficient BackProp", 1998); with unit-variance
 *            input it keeps the logits small, so that a high learning rate works from the first step
 *   Kaiming  normal with variance 2 / fan, for layers followed by a ReLU (He et al., "Delving deep into
 *            rectifiers", 2015, equations 10 and 14): fan_in preserves the size of values in forward,
 *            fan_out that of gradients in backward
 *   small    normal with standard deviation 0.01, for predictors of detection: all classes begin equally likely
 *            (Girshick, "Fast R-CNN", 2015, section 4.1) */
typedef enum init_kind {
    INIT_LECUN, /* the default */
    INIT_ZERO,
    INIT_ONE,
    INIT_KAIMING_IN,
    INIT_KAIMING_OUT,
    INIT_SMALL
} init_kind_t;

typedef struct graph_param {
    char name[GRAPH_PARAM_NAME_MAX]; /* such as "conv1/weight" */
    const char *meaning;             /* order of dimensions, such as "OHWI" */
    shape_t shape;
    init_kind_t init;
    int64_t fan_in, fan_out; /* of weights: terms per output, outputs per input at stride 1 */
    bool frozen;             /* has no gradient */
    int64_t offset;          /* elements from the start of the flat buffer; a multiple of 16 */
} graph_param_t;

/* Describes one parameter of a layer, in the operator's order. */
typedef struct graph_param_spec {
    const char *name, *meaning;
    init_kind_t init;
} graph_param_spec_t;

#endif
