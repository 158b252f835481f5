/* The builders of the table in model.c. */
#ifndef MODELS_BUILDERS_H
#define MODELS_BUILDERS_H

#include "models/model.h"

void build_lenet5(graph_t *graph, const model_options_t *options);
void build_mnist_cnn(graph_t *graph, const model_options_t *options);
void build_mnist_cnn_bn(graph_t *graph, const model_options_t *options);
void build_mlp(graph_t *graph, const model_options_t *options);

#endif
