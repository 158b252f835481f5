/* Models by name. One architecture per file; the table is in model.c. */
#ifndef MODELS_MODEL_H
#define MODELS_MODEL_H

#include "nn/graph.h"

typedef struct model_options {
    shape_t sample; /* [height, width, channels] */
    int n_classes;
    double label_smoothing;
    int64_t norm_group; /* batch_norm_attr_t.group of every batch norm */
} model_options_t;

typedef struct model {
    const char *name;
    const char *summary; /* one line for people */
    /* Adds every layer up to the loss to the graph. */
    void (*build)(graph_t *graph, const model_options_t *options);
} model_t;

/* Every model, ended by a NULL name. */
extern const model_t models[];

/* Builds a model. ERR_USAGE for an unknown name (the nearest is named) or an input it can't take. */
err_t model_build(const char *name, const model_options_t *options, graph_t **out);

#endif
