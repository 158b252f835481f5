/* What a backend runs of a graph: neighbouring layers computed in one pass over memory, and what is between
 * them stored in half of it. */
#ifndef COMPUTE_GRAPH_FUSE_H
#define COMPUTE_GRAPH_FUSE_H

#include "compute/graph/graph.h"
#include "compute/ops/backend.h"

/* A graph that computes the same with fewer nodes, where nobody else reads what is between them: ReLU goes
 * into the conv2d or linear before it, and a max pooling over windows side by side into the conv2d before
 * that; an addition goes into the batch norm that computes the later of its inputs, which gets the other as a
 * second input, and ReLU into a batch norm with or without one. A fused node stands where its first layer
 * did, so that parameters' gradients are final in the same order, and is called "layer1.0.bn2+add+relu2":
 * later names without what they begin with alike. Parameters, states and their flat buffers are the given
 * graph's. Where its products are of bfloat16 and the backend stores that, values between layers and their
 * gradients lie in memory as bfloat16; but not the input, nor what a loss reads. graph_free it. */
err_t graph_fuse(const graph_t *graph, const backend_t *backend, graph_t **out);

#endif
