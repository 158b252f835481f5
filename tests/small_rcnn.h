/* SPDX-License-Identifier: MIT */
/* A small Mask R-CNN, for tests: the models' layers, a trunk of one block a stage, fewer channels. */
#ifndef TESTS_SMALL_RCNN_H
#define TESTS_SMALL_RCNN_H

#include "compute/models/rcnn.h"
#include "tests/op_util.h"

/* 2 · width channels in the pyramid, 3 · width in the box head; not finished. */
static inline graph_t *small_rcnn(int64_t height, int64_t width_of_image, int n_classes, int64_t width,
                                  int64_t box_block, int64_t mask_block)
{
    static const resnet_t net = {{1, 1, 1, 1}, false};
    graph_t *g = NULL;
    must(graph_new("small", &g), "a graph");
    graph_input(g, "image", shape_3d(height, width_of_image, 3), DTYPE_F32);
    g->frozen_norms = true;
    rcnn_add(g, &(rcnn_sizes_t){.net = &net,
                                .masks = true,
                                .n_classes = n_classes,
                                .width = width,
                                .channels = 2 * width,
                                .hidden = 3 * width,
                                .box_block = box_block,
                                .mask_block = mask_block});
    return g;
}

#endif
