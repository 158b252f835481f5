/* SPDX-License-Identifier: MIT */
/* An affine map from the points of an output image to the points of its input, composed of crops, flips,
 * rotations and so on; random ones for training. It maps pixels, masks, boxes and polygons. Not collective;
 * thread-safe; no allocation.
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

#include <stdbool.h>
#include <stdint.h>

#include "compute/tensor/pixels.h"
#include "data/image/image.h"
#include "text/opt.h"

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

/* Random affine maps for training images, about the image's centre, with the semantics of Keras' ImageDataGenerator
 * (rotation_range, width_ and height_shift_range, shear_range, zoom_range, horizontal_flip). */
typedef struct random_affine_ranges {
    double rotate_deg; /* angle uniform in ± this */
    double shift;      /* rows and columns, each uniform in ± this fraction of the height and width */
    double shear_deg;  /* uniform in ± this; in degrees, as in Keras 2 and later */
    double zoom;       /* rows and columns, each scaled by its own factor uniform in 1 ± this */
    bool flip;         /* swap left and right with probability 1/2 */
} random_affine_ranges_t;

extern const opt_t random_affine_option_table[];
extern const int n_random_affine_options;

/* False if no option changes images. */
bool random_affine_active(const random_affine_ranges_t *ranges);

/* The same, ignoring flips. */
bool random_affine_moves(const random_affine_ranges_t *ranges);

/* The values drawn for one image. With offsets (row, column) from the centre, the output's pixel at `offset`
 * is read at this offset of the input:
 *
 *   | cos θ  −sin θ |   ( | 1  −sin φ |   | zoom_rows     0    |   | 1  0 |            | shift_rows × h | )
 *   | sin θ   cos θ | · ( | 0   cos φ | · |     0    zoom_cols | · | 0 ±1 | · offset + | shift_cols × w | )
 *
 * θ = rotate_deg (positive: clockwise), φ = shear_deg, −1 with flip (Keras flips after interpolating; here it
 * is part of the map). Zoom below 1 enlarges, as in Keras. */
typedef struct random_affine {
    double rotate_deg, shift_rows, shift_cols, shear_deg, zoom_rows, zoom_cols;
    bool flip;
} random_affine_t;

/* A function of (seed, epoch, dataset index). Each index has its own substream of (seed, RNG_AUGMENT), and
 * each epoch uses the next 8 words of it, so that no two (epoch, index) share a number. Every option uses its
 * word even if it is off, so that switching it on does not change the others' values. */
random_affine_t random_affine_draw(const random_affine_ranges_t *ranges, uint64_t seed, int64_t epoch,
                                   int64_t index);

/* The product above, for images of one size. */
affine_t random_affine_matrix(const random_affine_t *drawn, int64_t height, int64_t width);

/* Applied to images, which are interpolated bilinearly, and masks. Beyond the border the nearest pixel is repeated. in
 * and out must not overlap; sides are < 2^26.
 *
 * in and out: [height, width, channels]. Weights add up to one, so pixels may be normalised before or after.
 * The identity, flips, whole-pixel shifts and quarter turns are exact. kernels/cuda/pixels.cu computes the
 * same bits. */
void warp_pixels(const affine_t *map, const float *in, int64_t height, int64_t width, int64_t channels,
                 float *out);

/* Maps in[map->in, 3] to out[map->out, 3], rounded. */
void warp_rgb(const map_t *map, const uint8_t *in, uint8_t *out);

/* Maps a mask (annotation/mask.h) with supersampling.
 *
 *   in    [map->in], 0 or 1; 0 beyond the border
 *   side  samples per side of a pixel, 1 to 15
 *   out   [map->out]: how many of the side × side samples are 1 */
void warp_mask(const map_t *map, const uint8_t *in, int side, uint8_t *out);

#endif
