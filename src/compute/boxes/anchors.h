/* SPDX-License-Identifier: MIT */
/* Anchors of a region proposal network: boxes of fixed sizes and shapes at each cell of a feature map (Ren et
 * al., "Faster R-CNN", 2015). The grid is that of torchvision's AnchorGenerator. Not collective. */
#ifndef COMPUTE_BOXES_ANCHORS_H
#define COMPUTE_BOXES_ANCHORS_H

#include "compute/boxes/box.h"

enum { ANCHORS_MAX_PER_CELL = 16 };

/* The anchors of one feature map. */
typedef struct anchor_grid {
    int64_t height, width;      /* cells */
    int64_t stride_y, stride_x; /* pixels between cells: the canvas divided by the cells, rounded down */
    int n_per_cell;
    box_t at_origin[ANCHORS_MAX_PER_CELL]; /* of the first cell, around (0, 0); corners are whole numbers */
} anchor_grid_t;

/* One size in several shapes.
 *
 *   canvas_height, canvas_width  of the image that the map was computed from
 *   ratios                       [n_ratios] height / width */
anchor_grid_t anchor_grid(int64_t canvas_height, int64_t canvas_width, int64_t height, int64_t width,
                          float size, const float *ratios, int n_ratios);

/* Number of anchors: cells row by row, and within a cell the shapes. */
int64_t anchor_count(const anchor_grid_t *grid);
box_t anchor_at(const anchor_grid_t *grid, int64_t index);

#endif
