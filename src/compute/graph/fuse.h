/* SPDX-License-Identifier: MIT */
/* Fuses a graph for a backend: neighbouring layers are computed in one pass over memory, and values between
 * them may be stored as bfloat16, in half the memory. */
#ifndef COMPUTE_GRAPH_FUSE_H
#define COMPUTE_GRAPH_FUSE_H

#include "compute/graph/graph.h"
#include "compute/ops/backend.h"

/* Returns a graph that computes the same with fewer nodes. A value is fused away only if a single layer reads
 * it:
 *
 *   ReLU into the conv2d, linear or batch norm before it
 *   max pooling over adjacent windows into the conv2d before its ReLU
 *   an addition into the batch norm that computes the later of its inputs; the other becomes a second input
 *
 * A fused node replaces its first layer, so that gradients of parameters become final in the same order. Its
 * name is such as "layer1.0.bn2+add+relu2": later names drop the prefix they share. Parameters, states and
 * their flat buffers stay those of `graph`. If products are bfloat16 and the backend stores bfloat16, values
 * between layers and their gradients are stored as bfloat16, except the input of the graph and of the loss.
 * Free with graph_free. */
err_t graph_fuse(const graph_t *graph, const backend_t *backend, graph_t **out);

#endif
