/* SPDX-License-Identifier: MIT */
/* The convolutions of well-known networks, each shape once. LeNet-5 as dptrain trains it
 * (src/compute/models); VGG-16: Simonyan & Zisserman, "Very Deep Convolutional Networks", 2014, column
 * D, 15.3 G multiply-adds an image; ResNet-50: He et al., "Deep Residual Learning", 2015, with the stride in
 * a block's 3×3 (version 1.5, as frameworks have it), 4.1 G. Their images have 224×224 cells. */
#ifndef TOOLS_BENCH_CONV_LAYERS_H
#define TOOLS_BENCH_CONV_LAYERS_H

#include <stdbool.h>
#include <stdint.h>

typedef struct conv_layer {
    const char *net, *name; /* of the first layer that has the shape */
    int side, in, out;      /* images of side × side cells; channels */
    int kernel, stride, pad;
    bool bias;
    int repeat; /* how often the network has the shape */
    bool quick; /* measured with --quick, too */
} conv_layer_t;

extern const conv_layer_t conv_layers[];
extern const int n_conv_layers;

/* Cells a side of its output; multiply-adds of one pass over one image, the border's zeros counted. */
int64_t conv_layer_out_side(const conv_layer_t *layer);
int64_t conv_layer_macs(const conv_layer_t *layer);

#endif
