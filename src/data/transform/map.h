/* SPDX-License-Identifier: MIT */
/* An affine map from the points of an output image to the points of its input, composed of crops, flips,
 * rotations and so on. It maps pixels and masks (warp.h), boxes and polygons. Not collective; thread-safe; no
 * allocation.
 *
 * Points are (x, y) in pixels from the outer edge of the upper left corner: the pixel in row i and column j
 * covers [j, j + 1) × [i, i + 1), and its centre is (j + .5, i + .5), as in COCO. With offsets from the
 * centres of both images,
 *
 *   | y_in − in.height / 2 |            | y − out.height / 2 |
 *   | x_in − in.width / 2  | = matrix · | x − out.width / 2  | + shift
 *
 * Pixels are pulled: an output pixel is read where the map points. Annotations are pushed through the
 * inverse. */
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

/* Maps the rectangle `part` of the input to the rectangle `at` of the output, and mirrors it left to right if
 * requested. Neither is empty. */
map_t map_crop(map_size_t in, image_rect_t part, map_size_t out, image_rect_t at, bool mirror);

/* Maps the image as shown to the image as stored with this EXIF orientation. */
map_t map_orient(int orientation, map_size_t stored);

/* Maps first's output to second's input. first->in equals second->out. */
map_t map_compose(const map_t *first, const map_t *second);

/* The map must not be singular. */
map_t map_invert(const map_t *map);

typedef struct map_point {
    double x, y;
} map_point_t;
map_point_t map_point(const map_t *map, double x, double y);

/* The bounding box of the mapped box. Not clipped to the input. */
image_rect_t map_box(const map_t *map, image_rect_t box);

/* Maps from[n, 2] to to[n, 2], which may be the same array: annotation_t's points. */
void map_points(const map_t *map, const float *from, int64_t n, float *to);

#endif
