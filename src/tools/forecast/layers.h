/* SPDX-License-Identifier: MIT */
/* The layers of a model in the order of the backward pass, with times and gradients, from its graph. */
#ifndef TOOLS_FORECAST_LAYERS_H
#define TOOLS_FORECAST_LAYERS_H

#include "base/arena.h"
#include "report/records/profile.h"
#include "tools/forecast/step.h"

/* Times of a step's phases on a mean rank, and its layers. In an arena. */
typedef struct layers {
    const step_layer_t *at;
    int n;
    int64_t n_gradients; /* floats, padding included */
    int64_t n_parameters;
    double
        n_flops; /* of one sample, forward and backward: 2 per multiply-add, backward takes twice forward's */
    double forward_sec, backward_sec;
    bool is_detector; /* gradients are summed after the last image: one layer stands for all */
} layers_t;

/* The layers of a measured model: the profile's layers must be those of the graph, and the record's parameters as many
 * as the graph's. Their backward times are scaled to the measured backward pass. ERR_DATA otherwise: times of another
 * model. */
err_t layers_measured(const report_train_t *train, arena_t *arena, layers_t *out);

/* A model that was not measured: each layer takes its multiply-adds at this rate.
 *
 *   input_size  of the image's sides; 0: 224, for models of digits 28
 *   batch       samples per rank
 *   flops       per second */
err_t layers_assumed(const char *model, int64_t input_size, double batch, double flops, arena_t *arena,
                     layers_t *out);

#endif
