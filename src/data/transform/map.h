/* SPDX-License-Identifier: MIT */
/* One affine map from the points of an output image to the points of its input, composed of crops, flips,
 * rotations and so on. It maps pixels and masks (warp.h), boxes and polygons. Not collective; thread-safe; no
 * allocation.
 *
 * Points are (x, y) in pixels from the outer edge of the upper left corner: the pixel in row i and column j
 * covers [j, j + 1) × [i, i + 1), and its centre is (j + .5, i + .5): COCO's coordinates. With offsets from
 * the centres of both images,
 *
 *   | y_in − in.height / 2 |            | y − out.height / 2 |
 *   | x_in − in.width / 2  | = matrix · | x − out.width / 2  | + shift
 *
 * Pixels are pulled: the output's pixel is read where the map says. Annotations are pushed: those of the
 * input go through the inverse. */
#ifndef DATA_TRANSFORM_MAP_H
#define DATA_TRANSFORM_MAP_H

#include "compute/tensor/affine.h"
#include "data/image/image.h"

typedef struct map_size {
    int64_t height, width;
} map_size_t;

typedef struct map {
    affine_t affine;
    map_size_t out, in;
} map_t;

/* The rectangle `part` of the input fills the rectangle `at` of the output; mirror: left and right exchanged
 * within it. Neither is empty. */
map_t map_crop(map_size_t in, image_rect_t part, map_size_t out, image_rect_t at, bool mirror);

/* From the image as shown to the image as stored, which has this EXIF orientation. */
map_t map_orient(int orientation, map_size_t stored);

/* From first's output to second's input. first->in is second->out. */
map_t map_compose(const map_t *first, const map_t *second);

/* From the input to the output. The map is not singular. */
map_t map_invert(const map_t *map);

typedef struct map_point {
    double x, y;
} map_point_t;
map_point_t map_point(const map_t *map, double x, double y);

/* The smallest upright box around the box's image, which rotations make larger. Not cut to the input. */
image_rect_t map_box(const map_t *map, image_rect_t box);

/* Polygons, point by point (annotation_t's points): from[n, 2] to to[n, 2], which may be the same. */
void map_points(const map_t *map, const float *from, int64_t n, float *to);

#endif
