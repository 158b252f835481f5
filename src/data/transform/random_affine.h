/* SPDX-License-Identifier: MIT */
/* Random affine maps: each training image is shown a little differently in every epoch. One map about the
 * image's centre: the semantics of Keras' ImageDataGenerator (rotation_range, width_ and height_shift_range,
 * shear_range, zoom_range, horizontal_flip). Not collective; thread-safe. */
#ifndef DATA_TRANSFORM_RANDOM_AFFINE_H
#define DATA_TRANSFORM_RANDOM_AFFINE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/opt.h"
#include "compute/tensor/affine.h"

typedef struct random_affine_ranges {
    double rotate_deg; /* angle uniform in ± this */
    double shift;      /* rows and columns, each uniform in ± this fraction of the height and width */
    double shear_deg;  /* uniform in ± this; in degrees, as in Keras 2 and later: .3 is hardly any */
    double zoom;       /* rows and columns, each scaled by its own factor uniform in 1 ± this */
    bool flip;         /* left and right are exchanged with probability 1/2 */
} random_affine_ranges_t;

extern const opt_t random_affine_option_table[];
extern const int n_random_affine_options;

/* False when no option would change an image. */
bool random_affine_active(const random_affine_ranges_t *ranges);

/* The same but for flips. */
bool random_affine_moves(const random_affine_ranges_t *ranges);

/* What was drawn for one image. With offsets (row, column) from the centre, the pixel at an offset of the
 * output is read at this offset of the input:
 *
 *   | cos θ  −sin θ |   ( | 1  −sin φ |   | zoom_rows     0    |   | 1  0 |            | shift_rows × h | )
 *   | sin θ   cos θ | · ( | 0   cos φ | · |     0    zoom_cols | · | 0 ±1 | · offset + | shift_cols × w | )
 *
 * θ = rotate_deg (positive: clockwise), φ = shear_deg, −1 with flip (Keras flips last, after interpolating;
 * here it is part of the map). Zoom below 1 enlarges, as in Keras. */
typedef struct random_affine {
    double rotate_deg, shift_rows, shift_cols, shear_deg, zoom_rows, zoom_cols;
    bool flip;
} random_affine_t;

/* A function of (seed, epoch, dataset index). Each dataset index has a substream of its own of (seed,
 * RNG_AUGMENT), and each epoch the next 8 words of it: no two (epoch, index) share a number. An option takes
 * its word whether it is on or not: switching one on leaves the others' values as they were. */
random_affine_t random_affine_draw(const random_affine_ranges_t *ranges, uint64_t seed, int64_t epoch,
                                   int64_t index);

/* The product above, worked out for images of one size. */
affine_t random_affine_matrix(const random_affine_t *drawn, int64_t height, int64_t width);

#endif
