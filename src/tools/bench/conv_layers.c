/* SPDX-License-Identifier: MIT */
/* The layer shapes of `bench conv`, their output sizes and multiply-adds. The header names the sources. */
#include "tools/bench/conv_layers.h"

/* net, name, side, in, out, kernel, stride, pad, bias, repeat, quick */
const conv_layer_t conv_layers[] = {
    {"lenet5", "conv1", 28, 1, 20, 5, 1, 0, true, 1, true},
    {"lenet5", "conv2", 12, 20, 50, 5, 1, 0, true, 1, true},

    {"vgg16", "conv1_1", 224, 3, 64, 3, 1, 1, true, 1, false},
    {"vgg16", "conv1_2", 224, 64, 64, 3, 1, 1, true, 1, false},
    {"vgg16", "conv2_1", 112, 64, 128, 3, 1, 1, true, 1, false},
    {"vgg16", "conv2_2", 112, 128, 128, 3, 1, 1, true, 1, false},
    {"vgg16", "conv3_1", 56, 128, 256, 3, 1, 1, true, 1, true},
    {"vgg16", "conv3_2", 56, 256, 256, 3, 1, 1, true, 2, false},
    {"vgg16", "conv4_1", 28, 256, 512, 3, 1, 1, true, 1, false},
    {"vgg16", "conv4_2", 28, 512, 512, 3, 1, 1, true, 2, false},
    {"vgg16", "conv5_1", 14, 512, 512, 3, 1, 1, true, 3, true},

    {"resnet50", "conv1", 224, 3, 64, 7, 2, 3, false, 1, true},
    {"resnet50", "conv2_1a", 56, 64, 64, 1, 1, 0, false, 1, false},
    {"resnet50", "conv2_1b", 56, 64, 64, 3, 1, 1, false, 3, false},
    {"resnet50", "conv2_1c", 56, 64, 256, 1, 1, 0, false, 4, false},
    {"resnet50", "conv2_2a", 56, 256, 64, 1, 1, 0, false, 2, true},
    {"resnet50", "conv3_1a", 56, 256, 128, 1, 1, 0, false, 1, false},
    {"resnet50", "conv3_1b", 56, 128, 128, 3, 2, 1, false, 1, false},
    {"resnet50", "conv3_1c", 28, 128, 512, 1, 1, 0, false, 4, false},
    {"resnet50", "conv3_1d", 56, 256, 512, 1, 2, 0, false, 1, false},
    {"resnet50", "conv3_2a", 28, 512, 128, 1, 1, 0, false, 3, false},
    {"resnet50", "conv3_2b", 28, 128, 128, 3, 1, 1, false, 3, false},
    {"resnet50", "conv4_1a", 28, 512, 256, 1, 1, 0, false, 1, false},
    {"resnet50", "conv4_1b", 28, 256, 256, 3, 2, 1, false, 1, true},
    {"resnet50", "conv4_1c", 14, 256, 1024, 1, 1, 0, false, 6, false},
    {"resnet50", "conv4_1d", 28, 512, 1024, 1, 2, 0, false, 1, false},
    {"resnet50", "conv4_2a", 14, 1024, 256, 1, 1, 0, false, 5, false},
    {"resnet50", "conv4_2b", 14, 256, 256, 3, 1, 1, false, 5, false},
    {"resnet50", "conv5_1a", 14, 1024, 512, 1, 1, 0, false, 1, false},
    {"resnet50", "conv5_1b", 14, 512, 512, 3, 2, 1, false, 1, false},
    {"resnet50", "conv5_1c", 7, 512, 2048, 1, 1, 0, false, 3, false},
    {"resnet50", "conv5_1d", 14, 1024, 2048, 1, 2, 0, false, 1, false},
    {"resnet50", "conv5_2a", 7, 2048, 512, 1, 1, 0, false, 2, false},
    {"resnet50", "conv5_2b", 7, 512, 512, 3, 1, 1, false, 2, false},
};
const int n_conv_layers = sizeof conv_layers / sizeof conv_layers[0];

int64_t conv_layer_out_side(const conv_layer_t *l)
{
    return (l->side + 2 * l->pad - l->kernel) / l->stride + 1;
}

int64_t conv_layer_macs(const conv_layer_t *l)
{
    int64_t side = conv_layer_out_side(l);
    return side * side * l->out * l->kernel * l->kernel * l->in;
}
