/* SPDX-License-Identifier: MIT */
/* The builders listed in registry.c. */
#ifndef COMPUTE_MODELS_BUILDERS_H
#define COMPUTE_MODELS_BUILDERS_H

#include "compute/models/model.h"

void build_lenet5(graph_t *graph, const model_options_t *options);
void build_mnist_cnn(graph_t *graph, const model_options_t *options);
void build_mnist_cnn_bn(graph_t *graph, const model_options_t *options);
void build_mlp(graph_t *graph, const model_options_t *options);
void build_vgg16(graph_t *graph, const model_options_t *options);
void build_resnet18(graph_t *graph, const model_options_t *options);
void build_resnet50(graph_t *graph, const model_options_t *options);
void build_fasterrcnn_resnet18_fpn(graph_t *graph, const model_options_t *options);
void build_fasterrcnn_resnet50_fpn(graph_t *graph, const model_options_t *options);
void build_maskrcnn_resnet18_fpn(graph_t *graph, const model_options_t *options);
void build_maskrcnn_resnet50_fpn(graph_t *graph, const model_options_t *options);

#endif
