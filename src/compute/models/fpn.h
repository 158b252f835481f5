/* SPDX-License-Identifier: MIT */
/* A feature pyramid: Lin et al., "Feature pyramid networks for object detection", 2017. */
#ifndef COMPUTE_MODELS_FPN_H
#define COMPUTE_MODELS_FPN_H

#include "compute/graph/graph.h"

enum { FPN_STAGES = 4, FPN_LEVELS = 5 };

/* Adds the layers over a trunk's stages, finest first: lateral 1×1 convolutions, the top-down path, 3×3
 * convolutions, and above them every second cell of the coarsest level. Layers are named as in torchvision after
 * `prefix`: "inner_blocks.0.0", "layer_blocks.0.0".
 *
 *   channels  of every level
 *   out       [FPN_LEVELS] P2 to P6 */
void fpn_add(graph_t *graph, const char *prefix, const int *stages, int64_t channels, int *out);

#endif
