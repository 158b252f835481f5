/* SPDX-License-Identifier: MIT */
/* ResNet-18 to ResNet-152: He, Zhang, Ren, Sun, "Deep residual learning for image recognition", 2016, as
 * trained today: bottlenecks have their stride in the 3×3 convolution (v1.5), unless asked otherwise. Names and initial
 * values are torchvision's.
 *
 * model.h has the stems. */
#include <stdio.h>

#include "compute/graph/layers.h"
#include "compute/models/builders.h"

const resnet_t resnet18 = {{2, 2, 2, 2}, false}, resnet34 = {{3, 4, 6, 3}, false},
               resnet50 = {{3, 4, 6, 3}, true}, resnet101 = {{3, 4, 23, 3}, true},
               resnet152 = {{3, 8, 36, 3}, true};

/* One block of a stage; its layers are named prefix, then "layer1.0.conv1" and so on. */
typedef struct block {
    graph_t *g;
    const char *prefix;
    bool zero_init;  /* its branch begins at 0 */
    bool stride_1x1; /* of a bottleneck: resnet_trunk_t's */
    int stage, number;
    int64_t width; /* channels of its 3×3 convolutions */
    int stride;
    char name[GRAPH_NAME_MAX];
} block_t;

/* The name of one of its layers, valid until the next call. */
static const char *layer_name(block_t *b, const char *layer)
{
    int n = snprintf(b->name, sizeof b->name, "%slayer%d.%d.%s", b->prefix, b->stage, b->number, layer);
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
    v = nn_norm(b->g, layer_name(b, norm), v);
    return nn_relu(b->g, layer_name(b, relu), v);
}

/* The end of a block's branch. */
static int last_norm(block_t *b, const char *layer, int v)
{
    const char *name = layer_name(b, layer);
    return b->zero_init ? nn_norm_zero(b->g, name, v) : nn_norm(b->g, name, v);
}

/* If a block changes the shape, its input is projected to the new one by a 1×1 convolution. */
static int shortcut(block_t *b, int v, int64_t channels)
{
    shape_t x = graph_shape(b->g, v);
    if (b->stride == 1 && x.dim[x.n_dims - 1] == channels) return v;
    v = conv_layer(b->g, layer_name(b, "downsample.0"), v, channels, 1, b->stride);
    return nn_norm(b->g, layer_name(b, "downsample.1"), v);
}

static int basic_block(block_t *b, int input)
{
    int v = conv_norm_relu(b, '1', input, b->width, 3, b->stride);
    v = conv_layer(b->g, layer_name(b, "conv2"), v, b->width, 3, 1);
    v = last_norm(b, "bn2", v);
    int other = shortcut(b, input, b->width);
    v = nn_add(b->g, layer_name(b, "add"), v, other);
    return nn_relu(b->g, layer_name(b, "relu2"), v);
}

static int bottleneck(block_t *b, int input)
{
    int v = conv_norm_relu(b, '1', input, b->width, 1, b->stride_1x1 ? b->stride : 1);
    v = conv_norm_relu(b, '2', v, b->width, 3, b->stride_1x1 ? 1 : b->stride);
    v = conv_layer(b->g, layer_name(b, "conv3"), v, 4 * b->width, 1, 1);
    v = last_norm(b, "bn3", v);
    int other = shortcut(b, input, 4 * b->width);
    v = nn_add(b->g, layer_name(b, "add"), v, other);
    return nn_relu(b->g, layer_name(b, "relu3"), v);
}

/* The name of a layer of the stem, valid until the next call. */
static const char *stem_name(char name[GRAPH_NAME_MAX], const resnet_trunk_t *trunk, const char *layer)
{
    int n = snprintf(name, GRAPH_NAME_MAX, "%s%s", trunk->prefix, layer);
    ASSERT(n < GRAPH_NAME_MAX);
    return name;
}

static int stem(graph_t *g, const resnet_trunk_t *t)
{
    char name[GRAPH_NAME_MAX];
    int v =
        conv_layer(g, stem_name(name, t, "conv1"), 0, t->width, t->small_stem ? 3 : 7, t->small_stem ? 1 : 2);
    v = nn_norm(g, stem_name(name, t, "bn1"), v);
    v = nn_relu(g, stem_name(name, t, "relu"), v);
    if (t->small_stem) return v;
    return nn_max_pool(g, stem_name(name, t, "maxpool"), v,
                       (pool2d_layer_t){.kernel = 3, .stride = 2, .pad = 1});
}

void resnet_add_trunk(graph_t *g, const resnet_trunk_t *trunk, int *out)
{
    int v = stem(g, trunk);
    for (int stage = 0; stage < RESNET_STAGES; stage++) {
        for (int i = 0; i < trunk->net->n_blocks[stage]; i++) {
            block_t b = {.g = g,
                         .prefix = trunk->prefix,
                         .zero_init = trunk->zero_init_residual,
                         .stride_1x1 = trunk->stride_1x1,
                         .stage = stage + 1,
                         .number = i,
                         .width = trunk->width << stage,
                         .stride = stage > 0 && i == 0 ? 2 : 1};
            v = trunk->net->bottleneck ? bottleneck(&b, v) : basic_block(&b, v);
        }
        out[stage] = v;
    }
}

void build_resnet(graph_t *g, const model_options_t *options, const resnet_t *net)
{
    const int64_t *side = options->sample.dim;
    const bool is_small = side[0] <= MODEL_SMALL_SIDE || side[1] <= MODEL_SMALL_SIDE;
    const resnet_trunk_t trunk = {
        .net = net,
        .width = RESNET_WIDTH,
        .prefix = "",
        .small_stem = options->stem == MODEL_STEM_AUTO ? is_small : options->stem == MODEL_STEM_SMALL,
        .zero_init_residual = options->zero_init_residual};
    int stages[RESNET_STAGES];
    resnet_add_trunk(g, &trunk, stages);
    int v = nn_global_avg_pool(g, "avgpool", stages[RESNET_STAGES - 1]);
    v = nn_linear(g, "fc", v, options->n_classes);
    model_add_loss(g, options, v);
}
