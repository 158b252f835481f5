/* SPDX-License-Identifier: MIT */
/* The transposed convolution of model builders, with bias. Its initial values are those of torchvision's mask
 * predictor. */
#include "compute/graph/layers.h"

int nn_deconv2d(graph_t *graph, const char *name, int input, int64_t channels, int kernel)
{
    const graph_param_spec_t params[] = {{"weight", "HWOI", INIT_KAIMING_OUT}, {"bias", "O", INIT_DEFAULT}};
    op_desc_t desc = {
        .kind = OP_DECONV2D,
        .n_inputs = 1,
        .attr.deconv2d = {.out_channels = channels, .kernel = kernel, .has_bias = true},
    };
    return graph_add(graph, name, desc, &input, params, NULL);
}
