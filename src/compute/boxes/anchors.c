/* SPDX-License-Identifier: MIT */
/* Anchors, computed from their index; no table of them is kept. */
#include "compute/boxes/anchors.h"

#include <math.h>

#include "base/err.h"

anchor_grid_t anchor_grid(int64_t canvas_height, int64_t canvas_width, int64_t height, int64_t width,
                          float size, const float *ratios, int n_ratios)
{
    ASSERT(n_ratios > 0 && n_ratios <= ANCHORS_MAX_PER_CELL && height > 0 && width > 0);
    anchor_grid_t grid = {.height = height,
                          .width = width,
                          .stride_y = canvas_height / height,
                          .stride_x = canvas_width / width,
                          .n_per_cell = n_ratios};
    for (int i = 0; i < n_ratios; i++) {
        float root = sqrtf(ratios[i]);
        float h = root * size, w = 1 / root * size;
        /* To even, as torch.round. */
        grid.at_origin[i] = (box_t){rintf(-w / 2), rintf(-h / 2), rintf(w / 2), rintf(h / 2)};
    }
    return grid;
}

int64_t anchor_count(const anchor_grid_t *grid)
{
    return grid->height * grid->width * grid->n_per_cell;
}

box_t anchor_at(const anchor_grid_t *grid, int64_t index)
{
    int64_t cell = index / grid->n_per_cell;
    box_t b = grid->at_origin[index % grid->n_per_cell];
    float x = (float)(cell % grid->width * grid->stride_x), y = (float)(cell / grid->width * grid->stride_y);
    return (box_t){b.x1 + x, b.y1 + y, b.x2 + x, b.y2 + y};
}
