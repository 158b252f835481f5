/* SPDX-License-Identifier: MIT */
/* For builders: the functions and networks listed in registry.c, and the trunk of the ResNets, of which classifiers
 * and detectors are built. */
#ifndef COMPUTE_MODELS_BUILDERS_H
#define COMPUTE_MODELS_BUILDERS_H

#include "compute/models/model.h"

void build_lenet5(graph_t *graph, const model_options_t *options);
void build_mnist_cnn(graph_t *graph, const model_options_t *options);
void build_mnist_cnn_bn(graph_t *graph, const model_options_t *options);
void build_mlp(graph_t *graph, const model_options_t *options);
void build_vgg16(graph_t *graph, const model_options_t *options);
void build_resnet(graph_t *graph, const model_options_t *options, const resnet_t *net);
void build_rcnn(graph_t *graph, const model_options_t *options, const resnet_t *net, bool masks);

enum { RESNET_STAGES = 4 };

struct resnet {
    int n_blocks[RESNET_STAGES];
    bool bottleneck;
};

extern const resnet_t resnet18, resnet34, resnet50, resnet101, resnet152;

enum { RESNET_WIDTH = 64 };

typedef struct resnet_trunk {
    const resnet_t *net;
    int64_t width;      /* channels of the stem and of the first stage's 3×3 convolutions: RESNET_WIDTH */
    const char *prefix; /* before the layers' names: "backbone.body."; "": none */
    bool small_stem;    /* one 3×3 convolution at full resolution */
    bool zero_init_residual, stride_1x1; /* model_options_t's */
} resnet_trunk_t;

/* Adds the layers from value 0, the image, to the last stage.
 *
 *   out  [RESNET_STAGES] the stages' outputs, with strides of 4, 8, 16 and 32 pixels, or with the small stem 1, 2,
 *        4 and 8 */
void resnet_add_trunk(graph_t *graph, const resnet_trunk_t *trunk, int *out);

#endif
