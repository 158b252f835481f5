/* SPDX-License-Identifier: MIT */
/* A small Mask R-CNN, for tests: the models' layers, a trunk of one block a stage, fewer channels. */
#ifndef TESTS_SMALL_RCNN_H
#define TESTS_SMALL_RCNN_H

#include "compute/models/rcnn.h"
#include "tests/op_util.h"

typedef struct small_rcnn {
    int64_t height, width; /* of the graph's own canvas */
    int n_classes;
    int64_t channels; /* twice as many in the pyramid, three times as many in the box head */
    int64_t box_block, mask_block;
    bool norms_learn; /* --norm batch */
    dtype_t compute;  /* graph_t.compute */
} small_rcnn_t;

/* Not finished. */
static inline graph_t *small_rcnn_of(const small_rcnn_t *size)
{
    static const resnet_t net = {{1, 1, 1, 1}, false};
    graph_t *g = NULL;
    must(graph_new("small", &g), "a graph");
    graph_input(g, "image", shape_3d(size->height, size->width, 3), DTYPE_F32);
    g->norm = size->norms_learn ? GRAPH_NORM_BATCH : GRAPH_NORM_FROZEN;
    g->compute = size->compute;
    rcnn_add(g, &(rcnn_sizes_t){.net = &net,
                                .masks = true,
                                .n_classes = size->n_classes,
                                .width = size->channels,
                                .channels = 2 * size->channels,
                                .hidden = 3 * size->channels,
                                .box_block = size->box_block,
                                .mask_block = size->mask_block});
    return g;
}

static inline graph_t *small_rcnn(int64_t height, int64_t width, int n_classes, int64_t channels,
                                  int64_t box_block, int64_t mask_block)
{
    return small_rcnn_of(
        &(small_rcnn_t){height, width, n_classes, channels, box_block, mask_block, false, DTYPE_F32});
}

#endif
