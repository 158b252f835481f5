/* SPDX-License-Identifier: MIT */
/* Augmentation: each training picture is shown a little differently in every epoch. One random affine map
 * about the picture's centre, bilinear, pixels beyond the border taken from the nearest one inside: the
 * semantics of Keras' ImageDataGenerator (rotation_range, width_ and height_shift_range, shear_range,
 * zoom_range, horizontal_flip, fill_mode "nearest"). Not collective. Everything here is thread-safe.
 *
 * The map is a function of (seed, epoch, dataset index) alone: ranks, threads, the batch and the order in
 * which samples are read have no part in it, and a resumed run sees what an unbroken one would have seen. */
#ifndef DATA_TRANSFORM_AUGMENT_H
#define DATA_TRANSFORM_AUGMENT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/opt.h"
#include "compute/tensor/affine.h"

typedef struct augment_options {
    double rotate_deg; /* angle uniform in ± this */
    double shift;      /* rows and columns, each uniform in ± this fraction of the height and width */
    double
        shear_deg; /* shear angle uniform in ± this; in degrees, as in Keras 2 and later: .3 is hardly any */
    double zoom;   /* rows and columns, each scaled by its own factor uniform in 1 ± this */
    bool flip;     /* left and right are exchanged with probability 1/2 */
} augment_options_t;

extern const opt_t augment_option_table[];
extern const int n_augment_options;

/* False when no option would change a picture. */
bool augment_active(const augment_options_t *options);

typedef struct augment {
    augment_options_t options;
    uint64_t seed;
} augment_t;

/* What happens to one picture. With offsets (row, column) from the centre ((h − 1)/2, (w − 1)/2), the pixel
 * at an offset of the output is read at this offset of the input:
 *
 *   | cos θ  −sin θ |   ( | 1  −sin φ |   | zoom_rows     0    |   | 1  0 |            | shift_rows × h | )
 *   | sin θ   cos θ | · ( | 0   cos φ | · |     0    zoom_cols | · | 0 ±1 | · offset + | shift_cols × w | )
 *
 * θ = rotate_deg (positive: clockwise), φ = shear_deg, −1 with flip (Keras flips last, after interpolating;
 * here it is part of the map). Zoom below 1 enlarges, as in Keras. */
typedef struct augment_map {
    double rotate_deg, shift_rows, shift_cols, shear_deg, zoom_rows, zoom_cols;
    bool flip;
} augment_map_t;

/* Each dataset index has a substream of its own of (seed, RNG_AUGMENT), and each epoch the next 8 words of
 * it: no two (epoch, index) share a number. An option takes its word whether it is on or not: switching one
 * on leaves the others' values as they were. */
augment_map_t augment_draw(const augment_t *augment, int64_t epoch, int64_t index);

/* The product above, worked out for pictures of one size. */
affine_t augment_matrix(const augment_map_t *map, int64_t height, int64_t width);

/* in and out: [height, width, channels], not overlapping, each side < 2^26. Pixels may be normalised before
 * or after: weights sum to one. The map that changes nothing, flips, whole shifts and quarter turns are
 * exact. No allocation. */
void augment_apply(const augment_map_t *map, const float *in, int64_t height, int64_t width, int64_t channels,
                   float *out);

/* augment_apply with the map of augment_matrix. kernels/cuda/pixels.cu does the same, bit for bit. */
void augment_affine(const affine_t *map, const float *in, int64_t height, int64_t width, int64_t channels,
                    float *out);

#endif
