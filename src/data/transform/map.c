/* SPDX-License-Identifier: MIT */
/* Creates, composes and inverts affine maps, and applies them to points and boxes. */
#include "data/transform/map.h"

#include <math.h>

#include "base/err.h"
#include "data/image/orient.h"

map_t map_crop(map_size_t in, image_rect_t part, map_size_t out, image_rect_t at, bool mirror)
{
    const double rows = part.height / at.height, cols = (mirror ? -part.width : part.width) / at.width;
    const double row_from = at.y + at.height / 2 - (double)out.height / 2,
                 col_from = at.x + at.width / 2 - (double)out.width / 2;
    return (map_t){.affine = {.matrix = {rows, 0, 0, cols},
                              .shift = {part.y + part.height / 2 - (double)in.height / 2 - rows * row_from,
                                        part.x + part.width / 2 - (double)in.width / 2 - cols * col_from}},
                   .out = out,
                   .in = in};
}

/* The columns of the matrix are the images of unit steps. Relative to the centres the shift is zero. */
map_t map_orient(int orientation, map_size_t stored)
{
    const int64_t w = stored.width, h = stored.height;
    const bool swaps = orient_swaps(orientation);
    const image_rect_t at = orient_to_stored(orientation, w, h, (image_rect_t){0, 0, 0, 0});
    const image_rect_t right = orient_to_stored(orientation, w, h, (image_rect_t){1, 0, 0, 0});
    const image_rect_t down = orient_to_stored(orientation, w, h, (image_rect_t){0, 1, 0, 0});
    return (map_t){
        .affine = {.matrix = {down.y - at.y, right.y - at.y, down.x - at.x, right.x - at.x}},
        .out = {swaps ? w : h, swaps ? h : w},
        .in = stored,
    };
}

map_t map_compose(const map_t *first, const map_t *second)
{
    const double *a = first->affine.matrix, *b = second->affine.matrix;
    const double *p = first->affine.shift, *q = second->affine.shift;
    ASSERT(first->in.height == second->out.height && first->in.width == second->out.width);
    return (map_t){
        .affine = {.matrix = {b[0] * a[0] + b[1] * a[2], b[0] * a[1] + b[1] * a[3], b[2] * a[0] + b[3] * a[2],
                              b[2] * a[1] + b[3] * a[3]},
                   .shift = {b[0] * p[0] + b[1] * p[1] + q[0], b[2] * p[0] + b[3] * p[1] + q[1]}},
        .out = first->out,
        .in = second->in,
    };
}

map_t map_invert(const map_t *map)
{
    const double *m = map->affine.matrix, *s = map->affine.shift;
    const double det = m[0] * m[3] - m[1] * m[2];
    ASSERT(det != 0);
    const double i[4] = {m[3] / det, -m[1] / det, -m[2] / det, m[0] / det};
    return (map_t){.affine = {.matrix = {i[0], i[1], i[2], i[3]},
                              .shift = {-i[0] * s[0] - i[1] * s[1], -i[2] * s[0] - i[3] * s[1]}},
                   .out = map->in,
                   .in = map->out};
}

map_point_t map_point(const map_t *map, double x, double y)
{
    const double *m = map->affine.matrix, *s = map->affine.shift;
    const double row = y - (double)map->out.height / 2, col = x - (double)map->out.width / 2;
    return (map_point_t){.x = m[2] * row + m[3] * col + s[1] + (double)map->in.width / 2,
                         .y = m[0] * row + m[1] * col + s[0] + (double)map->in.height / 2};
}

image_rect_t map_box(const map_t *map, image_rect_t box)
{
    const double *m = map->affine.matrix;
    const map_point_t centre = map_point(map, box.x + box.width / 2, box.y + box.height / 2);
    const double width = fabs(m[3]) * box.width + fabs(m[2]) * box.height,
                 height = fabs(m[1]) * box.width + fabs(m[0]) * box.height;
    return (image_rect_t){centre.x - width / 2, centre.y - height / 2, width, height};
}

void map_points(const map_t *map, const float *from, int64_t n, float *to)
{
    for (int64_t i = 0; i < n; i++) {
        const map_point_t p = map_point(map, (double)from[2 * i], (double)from[2 * i + 1]);
        to[2 * i] = (float)p.x;
        to[2 * i + 1] = (float)p.y;
    }
}
