/* SPDX-License-Identifier: MIT */
/* ResNet-18 and ResNet-50: He, Zhang, Ren, Sun, "Deep residual learning for image recognition", 2016, as
 * trained today: bottlenecks have their stride in the 3×3 convolution (v1.5), convolutions start with
 * Kaiming's initialization by fan_out, and the last batch norm of every block with γ = 0. Layers are named as
 * in torchvision.
 *
 * Images up to 64 pixels (shorter side) get the stem usual for CIFAR, one 3×3 convolution at full resolution;
 * the 7×7 convolution and its pooling would leave too few pixels. */
#include <stdio.h>

#include "compute/graph/layers.h"
#include "compute/models/builders.h"

enum { SMALL_SIDE = 64, N_STAGES = 4 };

typedef struct resnet {
    int n_blocks[N_STAGES];
    bool bottleneck;
} resnet_t;

static const resnet_t resnet18 = {{2, 2, 2, 2}, false}, resnet50 = {{3, 4, 6, 3}, true};

/* One block of a stage; its layers are named "layer1.0.conv1" and so on. */
typedef struct block {
    graph_t *g;
    int stage, number;
    int64_t width; /* channels of its 3×3 convolutions */
    int stride;
    char name[GRAPH_NAME_MAX];
} block_t;

/* The name of one of its layers, valid until the next call. */
static const char *layer_name(block_t *b, const char *layer)
{
    int n = snprintf(b->name, sizeof b->name, "layer%d.%d.%s", b->stage, b->number, layer);
    ASSERT(n < GRAPH_NAME_MAX);
    return b->name;
}

static int conv_layer(graph_t *g, const char *name, int v, int64_t channels, int kernel, int stride)
{
    conv2d_layer_t layer = {.channels = channels,
                            .kernel = kernel,
                            .stride = stride,
                            .pad = kernel / 2,
                            .no_bias = true,
                            .init = INIT_KAIMING_OUT};
    return nn_conv2d(g, name, v, layer);
}

/* conv1, bn1, relu1, where 1 is `number`. */
static int conv_norm_relu(block_t *b, char number, int v, int64_t channels, int kernel, int stride)
{
    char layer[] = {'c', 'o', 'n', 'v', number, '\0'}, norm[] = {'b', 'n', number, '\0'};
    char relu[] = {'r', 'e', 'l', 'u', number, '\0'};
    v = conv_layer(b->g, layer_name(b, layer), v, channels, kernel, stride);
    v = nn_batch_norm(b->g, layer_name(b, norm), v);
    return nn_relu(b->g, layer_name(b, relu), v);
}

/* If a block changes the shape, its input is projected to the new one by a 1×1 convolution. */
static int shortcut(block_t *b, int v, int64_t channels)
{
    shape_t x = graph_shape(b->g, v);
    if (b->stride == 1 && x.dim[x.n_dims - 1] == channels) return v;
    v = conv_layer(b->g, layer_name(b, "downsample.0"), v, channels, 1, b->stride);
    return nn_batch_norm(b->g, layer_name(b, "downsample.1"), v);
}

static int basic_block(block_t *b, int input)
{
    int v = conv_norm_relu(b, '1', input, b->width, 3, b->stride);
    v = conv_layer(b->g, layer_name(b, "conv2"), v, b->width, 3, 1);
    v = nn_batch_norm_zero(b->g, layer_name(b, "bn2"), v);
    int other = shortcut(b, input, b->width);
    v = nn_add(b->g, layer_name(b, "add"), v, other);
    return nn_relu(b->g, layer_name(b, "relu2"), v);
}

static int bottleneck(block_t *b, int input)
{
    int v = conv_norm_relu(b, '1', input, b->width, 1, 1);
    v = conv_norm_relu(b, '2', v, b->width, 3, b->stride);
    v = conv_layer(b->g, layer_name(b, "conv3"), v, 4 * b->width, 1, 1);
    v = nn_batch_norm_zero(b->g, layer_name(b, "bn3"), v);
    int other = shortcut(b, input, 4 * b->width);
    v = nn_add(b->g, layer_name(b, "add"), v, other);
    return nn_relu(b->g, layer_name(b, "relu3"), v);
}

static int stem(graph_t *g, const model_options_t *options)
{
    const int64_t *side = options->sample.dim;
    bool small = side[0] <= SMALL_SIDE || side[1] <= SMALL_SIDE;
    int v = conv_layer(g, "conv1", 0, 64, small ? 3 : 7, small ? 1 : 2);
    v = nn_batch_norm(g, "bn1", v);
    v = nn_relu(g, "relu", v);
    return small ? v : nn_max_pool(g, "maxpool", v, (pool2d_layer_t){.kernel = 3, .stride = 2, .pad = 1});
}

static void build_resnet(graph_t *g, const model_options_t *options, const resnet_t *net)
{
    int v = stem(g, options);
    for (int stage = 0; stage < N_STAGES; stage++)
        for (int i = 0; i < net->n_blocks[stage]; i++) {
            block_t b = {.g = g,
                         .stage = stage + 1,
                         .number = i,
                         .width = (int64_t)64 << stage,
                         .stride = stage > 0 && i == 0 ? 2 : 1};
            v = net->bottleneck ? bottleneck(&b, v) : basic_block(&b, v);
        }
    v = nn_global_avg_pool(g, "avgpool", v);
    v = nn_linear(g, "fc", v, options->n_classes);
    model_add_loss(g, options, v);
}

void build_resnet18(graph_t *g, const model_options_t *options)
{
    build_resnet(g, options, &resnet18);
}

void build_resnet50(graph_t *g, const model_options_t *options)
{
    build_resnet(g, options, &resnet50);
}
