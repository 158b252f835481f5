/* SPDX-License-Identifier: MIT */
/* `dptrain info --model`: tables of a model's graph. */
#ifndef CMD_INFO_H
#define CMD_INFO_H

#include "compute/graph/graph.h"

/* Layers with parameters, multiply-adds and activations.
 *
 *   n  samples of the batch whose activations are counted */
err_t info_print_layers(const graph_t *graph, int64_t n);

/* Parameters and multiply-adds of a detector, by part. */
err_t info_print_parts(const graph_t *graph);

#endif
