/* SPDX-License-Identifier: MIT */
/* The pooling layers of model builders: square windows, the complete image, or a fixed number of output
 * pixels. */
#include "compute/graph/layers.h"

static int pool(graph_t *graph, const char *name, int input, pool_mode_t mode, pool2d_layer_t layer)
{
    int stride = layer.stride ? layer.stride : layer.kernel;
    op_desc_t desc = {
        .kind = OP_POOL2D,
        .n_inputs = 1,
        .attr.pool2d = {mode, layer.kernel, layer.kernel, stride, stride, layer.pad, layer.pad},
    };
    return graph_add(graph, name, desc, &input, NULL, NULL);
}

int nn_max_pool(graph_t *graph, const char *name, int input, pool2d_layer_t layer)
{
    return pool(graph, name, input, POOL_MAX, layer);
}

int nn_avg_pool(graph_t *graph, const char *name, int input, pool2d_layer_t layer)
{
    return pool(graph, name, input, POOL_AVG, layer);
}

int nn_global_avg_pool(graph_t *graph, const char *name, int input)
{
    shape_t x = graph_shape(graph, input);
    op_desc_t desc = {.kind = OP_POOL2D, .n_inputs = 1};
    if (x.n_dims == 4)
        desc.attr.pool2d = (pool2d_attr_t){POOL_AVG, narrow_int(x.dim[1]), narrow_int(x.dim[2]), 1, 1, 0, 0};
    return graph_add(graph, name, desc, &input, NULL, NULL);
}

/* Stride and kernel along one dimension. */
static void fit_window(int64_t in, int side, int *stride, int *kernel)
{
    int n = narrow_int(in);
    *stride = n > side ? n / side : 1;
    *kernel = n > side ? n - (side - 1) * *stride : 1;
}

int nn_avg_pool_to(graph_t *graph, const char *name, int input, int side)
{
    shape_t x = graph_shape(graph, input);
    op_desc_t desc = {.kind = OP_POOL2D, .n_inputs = 1, .attr.pool2d = {.mode = POOL_AVG}};
    if (x.n_dims == 4) {
        if (x.dim[1] <= side && x.dim[2] <= side) return input;
        fit_window(x.dim[1], side, &desc.attr.pool2d.stride_h, &desc.attr.pool2d.kernel_h);
        fit_window(x.dim[2], side, &desc.attr.pool2d.stride_w, &desc.attr.pool2d.kernel_w);
    }
    return graph_add(graph, name, desc, &input, NULL, NULL);
}
