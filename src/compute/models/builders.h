/* The builders of the table in model.c, and what they share. */
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

/* The last layer, "loss": softmax cross-entropy, or, of samples with any number of classes, sigmoid binary
 * cross-entropy. */
void build_loss(graph_t *graph, const model_options_t *options, int logits);

#endif
