/* SPDX-License-Identifier: MIT */
/* The feature pyramid, from the coarsest level to the finest. Initial values are torchvision's. */
#include "compute/models/fpn.h"

#include <stdio.h>

#include "compute/graph/layers.h"

typedef char fpn_name_t[GRAPH_NAME_MAX];

static const char *layer_name(fpn_name_t name, const char *prefix, const char *part, int level,
                              const char *end)
{
    int n = snprintf(name, GRAPH_NAME_MAX, "%s%s.%d%s", prefix, part, level, end);
    ASSERT(n < GRAPH_NAME_MAX);
    return name;
}

void fpn_add(graph_t *g, const char *prefix, const int *stages, int64_t channels, int *out)
{
    fpn_name_t name;
    const conv2d_layer_t lateral = {
        .channels = channels, .kernel = 1, .init = INIT_KAIMING_IN, .bias_init = INIT_ZERO};
    conv2d_layer_t smooth = lateral;
    smooth.kernel = 3, smooth.pad = 1;
    int inner = 0;
    for (int i = FPN_STAGES - 1; i >= 0; i--) {
        int v = nn_conv2d(g, layer_name(name, prefix, "inner_blocks", i, ".0"), stages[i], lateral);
        if (i < FPN_STAGES - 1) v = nn_upsample_add(g, layer_name(name, prefix, "top_down", i, ""), v, inner);
        inner = v;
        out[i] = nn_conv2d(g, layer_name(name, prefix, "layer_blocks", i, ".0"), inner, smooth);
    }
    pool2d_layer_t every_second = {.kernel = 1, .stride = 2};
    out[FPN_STAGES] =
        nn_max_pool(g, layer_name(name, prefix, "pool", FPN_STAGES, ""), out[FPN_STAGES - 1], every_second);
}
