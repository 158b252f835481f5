/* SPDX-License-Identifier: MIT */
/* Random affine maps for training images, about the image's centre, with the semantics of Keras'
 * ImageDataGenerator (rotation_range, width_ and height_shift_range, shear_range, zoom_range,
 * horizontal_flip). Not collective; thread-safe. */
#ifndef DATA_TRANSFORM_RANDOM_AFFINE_H
#define DATA_TRANSFORM_RANDOM_AFFINE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/opt.h"
#include "compute/tensor/affine.h"

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

#endif
