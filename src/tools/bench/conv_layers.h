/* SPDX-License-Identifier: MIT */
/* The convolutions of three networks on 224×224 images (LeNet-5: 28×28), each shape once.
 *
 *   LeNet-5    as dptrain trains it (src/compute/models)
 *   VGG-16     Simonyan & Zisserman, "Very Deep Convolutional Networks", 2014, column D; 15.3 G multiply-adds
 *              per image
 *   ResNet-50  He et al., "Deep Residual Learning", 2015, version 1.5 (stride in the 3×3); 4.1 G */
#ifndef TOOLS_BENCH_CONV_LAYERS_H
#define TOOLS_BENCH_CONV_LAYERS_H

#include <stdbool.h>
#include <stdint.h>

typedef struct conv_layer {
    const char *net, *name; /* of the first layer with this shape */
    int side, in, out;      /* input images of side × side pixels; channels */
    int kernel, stride, pad;
    bool bias;
    int repeat; /* number of layers with this shape */
    bool quick; /* included in --quick */
} conv_layer_t;

extern const conv_layer_t conv_layers[];
extern const int n_conv_layers;

/* Pixels per side of the output. */
int64_t conv_layer_out_side(const conv_layer_t *layer);
/* Multiply-adds of one pass over one image, including those with padding. */
int64_t conv_layer_macs(const conv_layer_t *layer);

#endif
